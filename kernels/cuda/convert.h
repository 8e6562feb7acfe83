// Numbers in another type on CUDA devices (kernels/convert.h). Pointers are to what the device
// reaches; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_CONVERT_H_
#define STRATA_KERNELS_CUDA_CONVERT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// dst = src, rounded to the nearest, ties to even; NaN stays NaN. From and to are float, BFloat16
// or Float16, and differ; one of them is float.
template <typename From, typename To>
absl::Status Convert(cudaStream_t stream, int64_t count, const From* src, To* dst);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CONVERT_H_
