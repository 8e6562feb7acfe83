// Rotary positions: kernels/rope.h.
#ifndef STRATA_KERNELS_REFERENCE_ROPE_H_
#define STRATA_KERNELS_REFERENCE_ROPE_H_

#include <cstdint>
#include <vector>

#include "kernels/reference/values.h"
#include "kernels/rope.h"

namespace strata::kernels::reference {

// qkv turned: each pair of elements as a complex number, by its angle. `positions` [N]: empty, or
// where rows stand instead.
Doubles Rope(const RopeShape& shape, double theta, bool inverse, const Doubles& qkv,
             const std::vector<int32_t>& positions = {});

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ROPE_H_
