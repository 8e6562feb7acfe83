// Functions of eight lanes beyond simd.h's: each to a few units in the last place of its value, at
// its tails too. Infinities give limits, NaN stays NaN.
#ifndef STRATA_KERNELS_CPU_FUNCTIONS_H_
#define STRATA_KERNELS_CPU_FUNCTIONS_H_

#include "kernels/cpu/simd.h"

namespace strata::kernels::simd {

inline Vec Negative(Vec x) { return _mm256_xor_ps(x, Set(-0.0f)); }
inline Vec Magnitude(Vec x) { return _mm256_andnot_ps(Set(-0.0f), x); }
// In [-bound, bound]; NaN stays NaN.
inline Vec Clamp(Vec x, float bound) {
  return _mm256_min_ps(Set(bound), _mm256_max_ps(Set(-bound), x));
}

inline Vec Sigmoid(Vec x) {
  const Vec one = Set(1.0f);
  return _mm256_div_ps(one, _mm256_add_ps(one, Exp(Negative(x))));
}

// Near 0 an odd polynomial (Moshier, Cephes, tanhf), else 1 - 2 / (exp(2 |x|) + 1) with x's sign.
inline Vec Tanh(Vec x) {
  const Vec one = Set(1.0f), magnitude = Magnitude(x), square = _mm256_mul_ps(x, x);
  Vec p = Set(-5.70498872745e-3f);
  p = _mm256_fmadd_ps(p, square, Set(2.06390887954e-2f));
  p = _mm256_fmadd_ps(p, square, Set(-5.37397155531e-2f));
  p = _mm256_fmadd_ps(p, square, Set(1.33314422036e-1f));
  p = _mm256_fmadd_ps(p, square, Set(-3.33332819422e-1f));
  const Vec near = _mm256_fmadd_ps(_mm256_mul_ps(p, square), x, x);
  const Vec exp = Exp(_mm256_add_ps(magnitude, magnitude));
  const Vec far = _mm256_sub_ps(one, _mm256_div_ps(Set(2.0f), _mm256_add_ps(exp, one)));
  const Vec signed_far = _mm256_or_ps(far, _mm256_and_ps(x, Set(-0.0f)));
  return _mm256_blendv_ps(signed_far, near, _mm256_cmp_ps(magnitude, Set(0.625f), _CMP_LT_OQ));
}

struct ValueAndSlope {
  Vec value, slope;
};

struct Silu {
  static Vec Value(Vec x) { return _mm256_mul_ps(x, Sigmoid(x)); }
  static ValueAndSlope Both(Vec x) {
    const Vec sigmoid = Sigmoid(x), silu = _mm256_mul_ps(x, sigmoid);
    // silu' = sigmoid + silu (1 - sigmoid)
    return {silu, _mm256_fnmadd_ps(silu, sigmoid, _mm256_add_ps(sigmoid, silu))};
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u), which has no difference to lose digits in.
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216f;    // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.0713548162726f;  // the same times 0.044715
  static constexpr float kBound = 16;                // beyond it the sigmoid is 0 or 1

  static Vec Value(Vec x) { return _mm256_mul_ps(x, Sigmoid(Argument(Clamp(x, kBound)))); }
  static ValueAndSlope Both(Vec x) {
    const Vec bounded = Clamp(x, kBound);
    const Vec sigmoid = Sigmoid(Argument(bounded)), value = _mm256_mul_ps(x, sigmoid);
    const Vec square = _mm256_mul_ps(bounded, bounded);
    const Vec turn = _mm256_fmadd_ps(square, Set(3 * kCubic), Set(kLinear));
    // sigmoid + x sigmoid (1 - sigmoid) (2 u)'
    const Vec rest = _mm256_mul_ps(_mm256_mul_ps(bounded, sigmoid), turn);
    return {value, _mm256_fmadd_ps(rest, _mm256_sub_ps(Set(1.0f), sigmoid), sigmoid)};
  }

 private:
  static Vec Argument(Vec x) {  // 2 u
    return _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_mul_ps(x, x), Set(kCubic), Set(kLinear)));
  }
};

// The lower tail P(-|x|) = exp(-x^2 / 2) erfcx(|x| / sqrt(2)) / 2, the upper one by 1 - P.
struct Gelu {
  static Vec Value(Vec x) { return _mm256_mul_ps(x, Of(x).below); }
  static ValueAndSlope Both(Vec x) {
    const Distribution at = Of(x);
    return {_mm256_mul_ps(x, at.below), _mm256_fmadd_ps(_mm256_mul_ps(Clamp(x, kBound), at.density),
                                                        Set(0.398942280401f), at.below)};
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
    const Vec halved = _mm256_mul_ps(bounded, half);
    const Vec high = _mm256_mul_ps(bounded, halved), low = _mm256_fmsub_ps(bounded, halved, high);
    Vec density = Exp(Negative(high));
    density = _mm256_fnmadd_ps(density, low, density);
    const Vec tail = _mm256_mul_ps(_mm256_mul_ps(density, half), Erfcx(Magnitude(bounded)));
    const Vec negative = _mm256_cmp_ps(x, Zero(), _CMP_LT_OQ);
    return {_mm256_blendv_ps(_mm256_sub_ps(one, tail), tail, negative), density};
  }
  // exp(z^2) erfc(z) of z = x / sqrt(2), x in [0, 14], as t Q(t) with t = 1 / (1 + 0.4 z); Q's
  // coefficients minimise the largest relative error (6e-8).
  static Vec Erfcx(Vec x) {
    const Vec one = Set(1.0f);
    const Vec t = _mm256_div_ps(one, _mm256_fmadd_ps(x, Set(0.282842712475f), one));
    Vec q = Set(0.0402674671f);
    q = _mm256_fmadd_ps(q, t, Set(-0.135470947f));
    q = _mm256_fmadd_ps(q, t, Set(0.0738418519f));
    q = _mm256_fmadd_ps(q, t, Set(0.0997299052f));
    q = _mm256_fmadd_ps(q, t, Set(0.0715080946f));
    q = _mm256_fmadd_ps(q, t, Set(0.196963112f));
    q = _mm256_fmadd_ps(q, t, Set(0.200958563f));
    q = _mm256_fmadd_ps(q, t, Set(0.226575712f));
    q = _mm256_fmadd_ps(q, t, Set(0.225626298f));
    return _mm256_mul_ps(q, t);
  }
};

}  // namespace strata::kernels::simd

#endif  // STRATA_KERNELS_CPU_FUNCTIONS_H_
