// The stand-in CUDA runtime, as tests see it: what they set, and what it found.
//
// Linking //device/standin:runtime instead of libcudart runs nvcc's own objects on the CPU: their
// PTX is interpreted under a checker of memory and order (docs/cuda_standin.md). The API is CUDA's,
// cuda_runtime_api.h; what stands here is besides.
//
//   standin::Reset({.thread_order = ThreadOrder::kDescending});
//   … calls of the runtime, kernels …
//   EXPECT_THAT(standin::TakeFindings(), IsEmpty());
//
// The process has Options::device_count devices. Calls come from any thread; one runs at a time,
// and one that waits lets the others.
#ifndef STRATA_DEVICE_STANDIN_STANDIN_H_
#define STRATA_DEVICE_STANDIN_STANDIN_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device/standin/findings.h"
#include "device/standin/managed_pages.h"
#include "device/standin/options.h"

namespace strata::standin {

// As in a new process: no memory, streams, errors, findings. Handles from before are void.
void Reset(const Options& options = {});

// What was found since Reset or the last call. Work that still waits for the host has found nothing
// yet: synchronise first.
std::vector<Finding> TakeFindings();

// The `count`-th operation from now (kernel, copy, fill, host function) does not run; from then on
// every call returns `error`, as with a device that failed. 1: the next.
void FailOperation(int64_t count, cudaError_t error);
// The `count`-th call of a function, by name, fails with `error` and does nothing; then all is
// well.
void FailCall(const std::string& function, int64_t count, cudaError_t error);

// Mistakes of whoever calls: the `count`-th call of a function from now is left out, and returns
// success, or is made on another stream. One at a time; graphs repeat what was captured.
void LeaveOutCall(const std::string& function, int64_t count);
void MoveCall(const std::string& function, int64_t count, cudaStream_t stream);
// Since Reset; of kernels "cudaLaunchKernel".
int64_t CallsOf(const std::string& function);

struct Counters {
  int64_t accesses;  // to memory, that were checked
  PageMoves pages;   // of managed memory
};
Counters GetCounters();

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_STANDIN_H_
