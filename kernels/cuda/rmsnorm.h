// RMS norms on CUDA devices: what kernels/rmsnorm.h computes. T is float, BFloat16 or Float16;
// pointers are to device memory; work is queued on the stream. Errors are those of arguments and of
// the launch.
#ifndef STRATA_KERNELS_CUDA_RMSNORM_H_
#define STRATA_KERNELS_CUDA_RMSNORM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct RmsNormShape {
  int64_t rows = 0;       // N
  int64_t channels = 0;   // C
  bool plus_one = false;  // 1 + w stands for w
};

// x[N, C], w[C] -> y[N, C], rstd[N]. y may be x.
template <typename T>
absl::Status RmsNormForward(cudaStream_t stream, const RmsNormShape& shape, float epsilon,
                            const T* x, const T* w, T* y, float* rstd);

// The residual connection and the norm after it: sum = x + branch, y and rstd of the sum as it was
// rounded. sum may be x or branch.
template <typename T>
absl::Status AddRmsNormForward(cudaStream_t stream, const RmsNormShape& shape, float epsilon,
                               const T* x, const T* branch, const T* w, T* sum, T* y, float* rstd);

// y of a forward again, the same bits, from the rstd[N] that it wrote. y may be x.
template <typename T>
absl::Status RmsNormReplay(cudaStream_t stream, const RmsNormShape& shape, const T* x, const T* w,
                           const float* rstd, T* y);

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels);

// The most channels whose weights' gradient is kept in shared memory.
inline constexpr int64_t kMostRmsNormChannels = 57344;

// dx[N, C] = (accumulate_dx: +=) the gradient towards x; dw[C] += the one towards w, unless dw is
// null, which needs no workspace. dx may be dy when it is not accumulated. dw is summed over a
// fixed number of blocks, then over these: the same bits in every run and on every device.
template <typename T>
absl::Status RmsNormBackward(cudaStream_t stream, const RmsNormShape& shape, const T* dy,
                             const T* x, const T* w, const float* rstd, bool accumulate_dx, T* dx,
                             float* dw, float* workspace);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_RMSNORM_H_
