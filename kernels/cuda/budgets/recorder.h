// A CUDA runtime that launches nothing: it keeps what kernels would be launched with.
#ifndef STRATA_KERNELS_CUDA_BUDGETS_RECORDER_H_
#define STRATA_KERNELS_CUDA_BUDGETS_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace strata::kernels::cuda {

struct RecordedLaunch {
  std::string kernel;  // mangled
  int64_t blocks = 0, threads = 0, shared_bytes = 0;
};

// Those since the last call.
std::vector<RecordedLaunch> TakeLaunches();

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_BUDGETS_RECORDER_H_
