// Rotary positions: kernels/rope.h.
#ifndef STRATA_KERNELS_REFERENCE_ROPE_H_
#define STRATA_KERNELS_REFERENCE_ROPE_H_

#include "kernels/reference/values.h"
#include "kernels/rope.h"

namespace strata::kernels::reference {

// qkv turned: each pair of elements as a complex number, by its angle.
Doubles Rope(const RopeShape& shape, double theta, bool inverse, const Doubles& qkv);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ROPE_H_
