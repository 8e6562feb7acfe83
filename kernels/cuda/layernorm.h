// Layer norms on CUDA devices: what kernels/layernorm.h computes. T is float, BFloat16 or Float16;
// pointers are to device memory; work is queued on the stream. Errors are those of arguments and of
// the launch.
#ifndef STRATA_KERNELS_CUDA_LAYERNORM_H_
#define STRATA_KERNELS_CUDA_LAYERNORM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct LayerNormShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
};

// x[N, C], w[C], b[C] -> y[N, C], statistics[N, 2]: mean, rstd. y may be x.
template <typename T>
absl::Status LayerNormForward(cudaStream_t stream, const LayerNormShape& shape, float epsilon,
                              const T* x, const T* w, const T* b, T* y, float* statistics);

// The residual connection and the norm after it: sum = x + branch, y and statistics of the sum as
// it was rounded. sum may be x or branch.
template <typename T>
absl::Status AddLayerNormForward(cudaStream_t stream, const LayerNormShape& shape, float epsilon,
                                 const T* x, const T* branch, const T* w, const T* b, T* sum, T* y,
                                 float* statistics);

// y of a forward again, the same bits, from the statistics that it wrote. y may be x.
template <typename T>
absl::Status LayerNormReplay(cudaStream_t stream, const LayerNormShape& shape, const T* x,
                             const T* w, const T* b, const float* statistics, T* y);

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormShape& shape);

// The most channels whose gradients of w and b are kept in shared memory.
inline constexpr int64_t kMostLayerNormChannels = 28672;

// dx[N, C] = (accumulate_dx: +=) the gradient towards x; dw[C], db[C] += those towards w and b,
// unless dw is null, which needs no workspace. dx may be dy when it is not accumulated. dw and db
// are summed over a fixed number of blocks, then over these.
template <typename T>
absl::Status LayerNormBackward(cudaStream_t stream, const LayerNormShape& shape, const T* dy,
                               const T* x, const T* w, const float* statistics, bool accumulate_dx,
                               T* dx, float* dw, float* db, float* workspace);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_LAYERNORM_H_
