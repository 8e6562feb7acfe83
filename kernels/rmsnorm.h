// Root mean square layer normalisation (Zhang and Sennrich, NeurIPS 2019, eq. 4):
// y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + epsilon) per row. Computed in f32 and rounded
// once; statistics and the weights' gradients are f32 for every T.
#ifndef STRATA_KERNELS_RMSNORM_H_
#define STRATA_KERNELS_RMSNORM_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

struct RmsNormShape {
  int64_t rows = 0;       // N
  int64_t channels = 0;   // C
  bool plus_one = false;  // 1 + w stands for w
};

// x[N, C], w[C] -> y[N, C], rstd[N]. y may be x.
template <typename T>
void RmsNormForward(const Context& context, const RmsNormShape& shape, float epsilon, const T* x,
                    const T* w, T* y, float* rstd);

// The residual connection and the norm after it in one pass: sum = x + branch, y and rstd of sum.
// sum may be x or branch.
template <typename T>
void AddRmsNormForward(const Context& context, const RmsNormShape& shape, float epsilon, const T* x,
                       const T* branch, const T* w, T* sum, T* y, float* rstd);

// y of a forward again, the same bits, from the rstd[N] that it wrote: for recomputation, which
// then needs no sums. y may be x.
template <typename T>
void RmsNormReplay(const Context& context, const RmsNormShape& shape, const T* x, const T* w,
                   const float* rstd, T* y);

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels);

// dx[N, C] = (accumulate_dx: +=) the gradient towards x; dw[C] += the one towards w, unless dw is
// null, which needs no workspace. dx may be dy when it is not accumulated.
template <typename T>
void RmsNormBackward(const Context& context, const RmsNormShape& shape, const T* dy, const T* x,
                     const T* w, const float* rstd, bool accumulate_dx, T* dx, float* dw,
                     void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_RMSNORM_H_
