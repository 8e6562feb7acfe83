// Layer norms: kernels/layernorm.h.
#ifndef STRATA_KERNELS_REFERENCE_LAYERNORM_H_
#define STRATA_KERNELS_REFERENCE_LAYERNORM_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

struct LayerNorm {
  Doubles y, statistics;
};
LayerNorm LayerNormForward(int64_t rows, int64_t channels, double epsilon, const Doubles& x,
                           const Doubles& w, const Doubles& b);

struct LayerNormGradient {
  Doubles dx, dw, db;
};
LayerNormGradient LayerNormBackward(int64_t rows, int64_t channels, const Doubles& dy,
                                    const Doubles& x, const Doubles& w, const Doubles& statistics);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_LAYERNORM_H_
