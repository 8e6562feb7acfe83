// Biases on CUDA devices: what kernels/bias.h computes. T is float, BFloat16 or Float16; pointers
// are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_BIAS_H_
#define STRATA_KERNELS_CUDA_BIAS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// y[N, W] += b[W] in every row.
template <typename T>
absl::Status AddBias(cudaStream_t stream, int64_t rows, int64_t width, const T* b, T* y);

int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width);

// db[W] += the sum of dy[N, W] over rows (column_sums.h).
template <typename T>
absl::Status BiasGradient(cudaStream_t stream, int64_t rows, int64_t width, const T* dy, float* db,
                          float* workspace);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_BIAS_H_
