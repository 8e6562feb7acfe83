// RMS norms of single query and key heads on CUDA devices: what kernels/headnorm.h computes, on
// packed rows qkv[N, (H + 2K) * D] whose values stay what they are. T is float, BFloat16 or
// Float16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_HEADNORM_H_
#define STRATA_KERNELS_CUDA_HEADNORM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct HeadNormShape {
  int64_t rows = 0;  // N
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  bool plus_one = false;  // 1 + w stands for w

  int64_t width() const { return (heads + 2 * kv_heads) * head_size; }
  int64_t norms() const { return heads + kv_heads; }  // per row
};

// Query heads with wq[D], key heads with wk[D] -> out, rstd[N, H + K]. out may be qkv.
template <typename T>
absl::Status HeadNormForward(cudaStream_t stream, const HeadNormShape& shape, float epsilon,
                             const T* qkv, const T* wq, const T* wk, T* out, float* rstd);

// out of a forward again, the same bits, from the rstd that it wrote. out may be qkv.
template <typename T>
absl::Status HeadNormReplay(cudaStream_t stream, const HeadNormShape& shape, const T* qkv,
                            const T* wq, const T* wk, const float* rstd, T* out);

int64_t HeadNormBackwardWorkspaceBytes(const HeadNormShape& shape);

// The largest heads whose weights' gradients are kept in shared memory.
inline constexpr int64_t kMostHeadNormSize = 768;

// dqkv from dout, which it may be; dwq[D], dwk[D] += the gradients towards the weights, unless dwq
// is null, which needs no workspace. They are summed over a fixed number of blocks, then over
// these.
template <typename T>
absl::Status HeadNormBackward(cudaStream_t stream, const HeadNormShape& shape, const T* dout,
                              const T* qkv, const T* wq, const T* wk, const float* rstd, T* dqkv,
                              float* dwq, float* dwk, float* workspace);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_HEADNORM_H_
