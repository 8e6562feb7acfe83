// Flat ranges: kernels/elementwise.h.
#ifndef STRATA_KERNELS_REFERENCE_ELEMENTWISE_H_
#define STRATA_KERNELS_REFERENCE_ELEMENTWISE_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

// dst + src.
Doubles Add(const Doubles& dst, const Doubles& src);
double SumSquares(const Doubles& x);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ELEMENTWISE_H_
