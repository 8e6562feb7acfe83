// Soft caps: cap * tanh(x / cap), which is between -cap and cap.
#ifndef STRATA_KERNELS_CPU_SOFTCAP_H_
#define STRATA_KERNELS_CPU_SOFTCAP_H_

#include "kernels/cpu/functions.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA::simd {

struct Cap {
  Vec cap, inverse;
  explicit Cap(float value) : cap(Set(value)), inverse(Set(1 / value)) {}

  Vec Value(Vec x) const { return Mul(cap, Tanh(Mul(x, inverse))); }
  // The slope where the capped value is `value`: 1 - tanh^2.
  Vec Slope(Vec value) const {
    const Vec tanh = Mul(value, inverse);
    return NegMulAdd(tanh, tanh, Set(1.0f));
  }
};
struct NoCap {
  Vec Value(Vec x) const { return x; }
};

}  // namespace strata::kernels::STRATA_ISA::simd

#endif  // STRATA_KERNELS_CPU_SOFTCAP_H_
