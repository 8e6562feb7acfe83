// Lanes of f32, as many as an instruction of the instruction set compiled for has, ends of rows
// included.
#ifndef STRATA_KERNELS_CPU_SIMD_H_
#define STRATA_KERNELS_CPU_SIMD_H_

#include <cstdint>

#include "kernels/cpu/simd_eight.h"
#include "kernels/cpu/target.h"
#include "kernels/number_types.h"
#ifdef STRATA_COMPILE_AVX512
#include "kernels/cpu/simd_sixteen.h"
#endif

namespace strata::kernels::STRATA_ISA::simd {

#ifdef STRATA_COMPILE_AVX512
using Vec = Sixteen;
using Ints = SixteenInts;
using Full = FullSixteen;
using Tail = TailSixteen;
#else
using Vec = Eight;
using Ints = EightInts;
using Full = FullEight;
using Tail = TailEight;
#endif
inline constexpr int64_t kLanes = sizeof(Vec) / sizeof(float);

inline Vec Set(float x) {
  Vec v;
  SetTo(x, v);
  return v;
}
inline Ints SetInts(int x) {
  Ints v;
  SetTo(x, v);
  return v;
}
inline Vec Zero() { return Set(0.0f); }
inline Vec Load(const float* p) { return Full{}.Load(p); }
inline void Store(float* p, Vec v) { Full{}.Store(p, v); }

// What v becomes when it is stored as a T and loaded again.
template <typename T>
Vec Rounded(Vec v) {
  return Widen(Narrow(v, T{}), T{});
}
template <>
inline Vec Rounded<float>(Vec v) {
  return v;
}

// body(i, lanes) for i = 0, kLanes, ... below n.
template <typename Body>
[[gnu::always_inline]] inline void ForEachVec(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, Tail(n - i));
}

// The same with four at a time: body(i, lane group 0..3, lanes), for four independent accumulators.
template <typename Body>
[[gnu::always_inline]] inline void ForEachVec4(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    body(i, 0, Full{});
    body(i + kLanes, 1, Full{});
    body(i + 2 * kLanes, 2, Full{});
    body(i + 3 * kLanes, 3, Full{});
  }
  // Constant groups here too: a computed one would push the accumulators out of their registers.
  for (; i + kLanes <= n; i += kLanes) body(i, 0, Full{});
  if (i < n) body(i, 1, Tail(n - i));
}

// e^x to about one unit in the last place. Below -86.6 the result is zero, above 88.722 infinity;
// NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2 and ln 2 in two parts (Cody and Waite, 1980);
// e^r by a polynomial whose last five coefficients minimise the largest relative error (2^-28);
// 2^n by adding n to the exponent.
inline Vec Exp(Vec x) {
  const Vec infinity = Set(__builtin_inff());
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const Vec shift = Set(12582912.0f);
  const Vec shifted = MulAdd(x, Set(1.44269504088896341f), shift);
  const Vec n = Sub(shifted, shift);
  Vec r = NegMulAdd(n, Set(0.693359375f), x);
  r = NegMulAdd(n, Set(-2.12194440e-4f), r);
  Vec p = Set(0.001381454f);
  p = MulAdd(p, r, Set(0.00836874512f));
  p = MulAdd(p, r, Set(0.0416683908f));
  p = MulAdd(p, r, Set(0.166665204f));
  p = MulAdd(p, r, Set(0.499999934f));
  p = MulAdd(p, r, Set(1.0f));
  p = MulAdd(p, r, Set(1.0f));
  const Ints exponent = ShiftLeft<23>(AsInts(shifted));
  p = AsFloats(Add(AsInts(p), exponent));
  // Where the sum left the range of exponents, or x is NaN.
  const auto above = NotAtMost(x, Set(88.722839f));
  const auto below = Less(x, Set(-86.6f));
  p = Choose(above, Add(x, infinity), p);
  return ZeroWhere(below, p);
}

}  // namespace strata::kernels::STRATA_ISA::simd

#endif  // STRATA_KERNELS_CPU_SIMD_H_
