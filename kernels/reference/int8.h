// Weights in 8 bits: kernels/int8.h.
#ifndef STRATA_KERNELS_REFERENCE_INT8_H_
#define STRATA_KERNELS_REFERENCE_INT8_H_

#include <cstdint>
#include <vector>

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

struct Int8Rows {
  std::vector<int> codes;  // [R, C]
  Doubles scales;          // [R]
};

// Of weights [R, C].
Int8Rows QuantiseInt8(const Doubles& weights, int64_t columns);
Doubles DequantiseInt8(const Int8Rows& rows);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_INT8_H_
