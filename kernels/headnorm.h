// RMS norms of single query and key heads (kernels/rmsnorm.h), on packed rows qkv[N, (H + 2K) * D]
// whose values stay what they are.
#ifndef STRATA_KERNELS_HEADNORM_H_
#define STRATA_KERNELS_HEADNORM_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

struct HeadNormShape {
  int64_t rows = 0;  // N
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  bool plus_one = false;  // 1 + w stands for w

  int64_t width() const { return (heads + 2 * kv_heads) * head_size; }
  int64_t norms() const { return heads + kv_heads; }  // per row
};

// Query heads with wq[D], key heads with wk[D] -> out, rstd[N, H + K]. out may be qkv.
template <typename T>
void HeadNormForward(const Context& context, const HeadNormShape& shape, float epsilon,
                     const T* qkv, const T* wq, const T* wk, T* out, float* rstd);

// out of a forward again, the same bits, from the rstd that it wrote. out may be qkv.
template <typename T>
void HeadNormReplay(const Context& context, const HeadNormShape& shape, const T* qkv, const T* wq,
                    const T* wk, const float* rstd, T* out);

int64_t HeadNormBackwardWorkspaceBytes(const HeadNormShape& shape);

// dqkv from dout, which it may be; dwq[D], dwk[D] += the gradients towards the weights, unless dwq
// is null, which needs no workspace.
template <typename T>
void HeadNormBackward(const Context& context, const HeadNormShape& shape, const T* dout,
                      const T* qkv, const T* wq, const T* wk, const float* rstd, T* dqkv,
                      float* dwq, float* dwk, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_HEADNORM_H_
