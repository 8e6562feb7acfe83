// RMS norms: kernels/rmsnorm.h.
#ifndef STRATA_KERNELS_REFERENCE_RMSNORM_H_
#define STRATA_KERNELS_REFERENCE_RMSNORM_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

struct RmsNorm {
  Doubles y, rstd;
};
RmsNorm RmsNormForward(int64_t rows, int64_t channels, double epsilon, const Doubles& x,
                       const Doubles& w);

Doubles RmsNormReplay(int64_t rows, int64_t channels, const Doubles& x, const Doubles& w,
                      const Doubles& rstd);

struct RmsNormGradient {
  Doubles dx, dw;
};
RmsNormGradient RmsNormBackward(int64_t rows, int64_t channels, const Doubles& dy, const Doubles& x,
                                const Doubles& w, const Doubles& rstd);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_RMSNORM_H_
