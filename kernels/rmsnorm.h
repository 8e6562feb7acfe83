// Root mean square layer normalisation (Zhang and Sennrich, NeurIPS 2019, eq. 4):
// y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + epsilon) per row.
#ifndef STRATA_KERNELS_RMSNORM_H_
#define STRATA_KERNELS_RMSNORM_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// x[N, C], w[C] -> y[N, C], rstd[N]. y may be x.
void RmsNormForward(const Context& context, int64_t rows, int64_t channels, float epsilon,
                    const float* x, const float* w, float* y, float* rstd);

// The residual connection and the norm after it in one pass: sum = x + branch, y and rstd of sum.
// sum may be x or branch.
void AddRmsNormForward(const Context& context, int64_t rows, int64_t channels, float epsilon,
                       const float* x, const float* branch, const float* w, float* sum, float* y,
                       float* rstd);

// y of a forward again, the same bits, from the rstd[N] that it wrote: for recomputation, which
// then needs no sums. y may be x.
void RmsNormReplay(const Context& context, int64_t rows, int64_t channels, const float* x,
                   const float* w, const float* rstd, float* y);

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels);

// dx[N, C] = (accumulate_dx: +=) the gradient towards x; dw[C] += the one towards w. dx may be dy
// when it is not accumulated.
void RmsNormBackward(const Context& context, int64_t rows, int64_t channels, const float* dy,
                     const float* x, const float* w, const float* rstd, bool accumulate_dx,
                     float* dx, float* dw, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_RMSNORM_H_
