// Copies that the device decides, when their turn has come. Pointers are to whatever the device
// reaches, pinned memory of the host too; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_DECIDED_COPY_H_
#define STRATA_KERNELS_CUDA_DECIDED_COPY_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// to = from, if *decides is not 0 or, negated, if it is; else nothing is read or written. Across
// the link as fast as kernels read and write there, which takes a few multiprocessors.
absl::Status DecidedCopy(cudaStream_t stream, const double* decides, bool negated, int64_t bytes,
                         const void* from, void* to);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_DECIDED_COPY_H_
