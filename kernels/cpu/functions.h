// Functions of lanes beyond simd.h's: each to a few units in the last place of its value, at
// its tails too. Infinities give limits, NaN stays NaN.
#ifndef STRATA_KERNELS_CPU_FUNCTIONS_H_
#define STRATA_KERNELS_CPU_FUNCTIONS_H_

#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA::simd {

inline Vec Negative(Vec x) { return Xor(x, Set(-0.0f)); }
inline Vec Magnitude(Vec x) { return AndNot(Set(-0.0f), x); }
// In [-bound, bound]; NaN stays NaN.
inline Vec Clamp(Vec x, float bound) { return Min(Set(bound), Max(Set(-bound), x)); }

inline Vec Sigmoid(Vec x) {
  const Vec one = Set(1.0f);
  return Div(one, Add(one, Exp(Negative(x))));
}

// Near 0 an odd polynomial (Moshier, Cephes, tanhf), else 1 - 2 / (exp(2 |x|) + 1) with x's sign.
inline Vec Tanh(Vec x) {
  const Vec one = Set(1.0f), magnitude = Magnitude(x), square = Mul(x, x);
  Vec p = Set(-5.70498872745e-3f);
  p = MulAdd(p, square, Set(2.06390887954e-2f));
  p = MulAdd(p, square, Set(-5.37397155531e-2f));
  p = MulAdd(p, square, Set(1.33314422036e-1f));
  p = MulAdd(p, square, Set(-3.33332819422e-1f));
  const Vec near = MulAdd(Mul(p, square), x, x);
  const Vec exp = Exp(Add(magnitude, magnitude));
  const Vec far = Sub(one, Div(Set(2.0f), Add(exp, one)));
  const Vec signed_far = Or(far, And(x, Set(-0.0f)));
  return Choose(Less(magnitude, Set(0.625f)), near, signed_far);
}

struct ValueAndSlope {
  Vec value, slope;
};

struct Silu {
  static Vec Value(Vec x) { return Mul(x, Sigmoid(x)); }
  static ValueAndSlope Both(Vec x) {
    const Vec sigmoid = Sigmoid(x), silu = Mul(x, sigmoid);
    // silu' = sigmoid + silu (1 - sigmoid)
    return {silu, NegMulAdd(silu, sigmoid, Add(sigmoid, silu))};
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u), which has no difference to lose digits in.
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216f;    // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.0713548162726f;  // the same times 0.044715
  static constexpr float kBound = 16;                // beyond it the sigmoid is 0 or 1

  static Vec Value(Vec x) { return Mul(x, Sigmoid(Argument(Clamp(x, kBound)))); }
  static ValueAndSlope Both(Vec x) {
    const Vec bounded = Clamp(x, kBound);
    const Vec sigmoid = Sigmoid(Argument(bounded)), value = Mul(x, sigmoid);
    const Vec square = Mul(bounded, bounded);
    const Vec turn = MulAdd(square, Set(3 * kCubic), Set(kLinear));
    // sigmoid + x sigmoid (1 - sigmoid) (2 u)'
    const Vec rest = Mul(Mul(bounded, sigmoid), turn);
    return {value, MulAdd(rest, Sub(Set(1.0f), sigmoid), sigmoid)};
  }

 private:
  static Vec Argument(Vec x) {  // 2 u
    return Mul(x, MulAdd(Mul(x, x), Set(kCubic), Set(kLinear)));
  }
};

// The lower tail P(-|x|) = exp(-x^2 / 2) erfcx(|x| / sqrt(2)) / 2, the upper one by 1 - P.
struct Gelu {
  static Vec Value(Vec x) { return Mul(x, Of(x).below); }
  static ValueAndSlope Both(Vec x) {
    const Distribution at = Of(x);
    return {Mul(x, at.below),
            MulAdd(Mul(Clamp(x, kBound), at.density), Set(0.398942280401f), at.below)};
  }

 private:
  static constexpr float kBound = 14;  // beyond it exp(-x^2 / 2) is 0

  struct Distribution {
    Vec below;    // P(x)
    Vec density;  // exp(-x^2 / 2)
  };

  static Distribution Of(Vec x) {
    const Vec one = Set(1.0f), half = Set(0.5f), bounded = Clamp(x, kBound);
    // x^2 / 2 in two parts: the exponential would make much of a rounding.
    const Vec halved = Mul(bounded, half);
    const Vec high = Mul(bounded, halved), low = MulSub(bounded, halved, high);
    Vec density = Exp(Negative(high));
    density = NegMulAdd(density, low, density);
    const Vec tail = Mul(Mul(density, half), Erfcx(Magnitude(bounded)));
    return {Choose(Less(x, Zero()), tail, Sub(one, tail)), density};
  }
  // exp(z^2) erfc(z) of z = x / sqrt(2), x in [0, 14], as t Q(t) with t = 1 / (1 + 0.4 z); Q's
  // coefficients minimise the largest relative error (6e-8).
  static Vec Erfcx(Vec x) {
    const Vec one = Set(1.0f);
    const Vec t = Div(one, MulAdd(x, Set(0.282842712475f), one));
    Vec q = Set(0.0402674671f);
    q = MulAdd(q, t, Set(-0.135470947f));
    q = MulAdd(q, t, Set(0.0738418519f));
    q = MulAdd(q, t, Set(0.0997299052f));
    q = MulAdd(q, t, Set(0.0715080946f));
    q = MulAdd(q, t, Set(0.196963112f));
    q = MulAdd(q, t, Set(0.200958563f));
    q = MulAdd(q, t, Set(0.226575712f));
    q = MulAdd(q, t, Set(0.225626298f));
    return Mul(q, t);
  }
};

}  // namespace strata::kernels::STRATA_ISA::simd

#endif  // STRATA_KERNELS_CPU_FUNCTIONS_H_
