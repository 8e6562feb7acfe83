// RMS norms of heads: kernels/headnorm.h, by those of rows.
#ifndef STRATA_KERNELS_REFERENCE_HEADNORM_H_
#define STRATA_KERNELS_REFERENCE_HEADNORM_H_

#include "kernels/headnorm.h"
#include "kernels/reference/values.h"

namespace strata::kernels::reference {

struct HeadNorm {
  Doubles out, rstd;
};
HeadNorm HeadNormForward(const HeadNormShape& shape, double epsilon, const Doubles& qkv,
                         const Doubles& wq, const Doubles& wk);

struct HeadNormGradient {
  Doubles dqkv, dwq, dwk;
};
HeadNormGradient HeadNormBackward(const HeadNormShape& shape, const Doubles& dout,
                                  const Doubles& qkv, const Doubles& wq, const Doubles& wk,
                                  const Doubles& rstd);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_HEADNORM_H_
