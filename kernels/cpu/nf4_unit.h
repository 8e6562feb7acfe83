// Where things lie in a unit of weights in nf4 (kernels/nf4.h).
#ifndef STRATA_KERNELS_CPU_NF4_UNIT_H_
#define STRATA_KERNELS_CPU_NF4_UNIT_H_

#include <cstdint>

#include "kernels/nf4.h"

namespace strata::kernels {

inline constexpr int64_t kScalesAt = 64;
inline constexpr int64_t kCodesAt = kScalesAt + kNf4UnitBlocks;
inline constexpr int64_t kCodesAtOfF32 = 4 * kNf4UnitBlocks;

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_NF4_UNIT_H_
