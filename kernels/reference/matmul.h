// Matrix products: kernels/matmul.h.
#ifndef STRATA_KERNELS_REFERENCE_MATMUL_H_
#define STRATA_KERNELS_REFERENCE_MATMUL_H_

#include "kernels/matmul.h"
#include "kernels/reference/values.h"

namespace strata::kernels::reference {

// c after the product; what lies between its rows stays.
Doubles Matmul(const MatmulShape& shape, const Doubles& a, const Doubles& b, const Doubles& c);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_MATMUL_H_
