// From products of queries and keys to exponents of two. Queries are packed times a factor, so that
// a product is a score in units of ln 2 already, or the argument of a softcap's tanh.
#ifndef STRATA_KERNELS_CPU_ATTENTION_SCORES_H_
#define STRATA_KERNELS_CPU_ATTENTION_SCORES_H_

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2 = 0.69314718055994531f;

// 2^x for x of at most 127, to 1.5 * 2^-24 and rounding; zero below -126, and NaN stays NaN. x = n
// + r with |r| <= 1/2; 2^r by the polynomial with the least largest relative error of those with
// 2^0 = 1.
inline simd::Vec Exp2(simd::Vec x) {
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits, here with the
  // exponent's bias.
  const simd::Vec shift = simd::Set(12582912.0f + 127.0f);
  const simd::Vec shifted = _mm256_add_ps(x, shift);
  const simd::Vec r = _mm256_sub_ps(x, _mm256_sub_ps(shifted, shift));
  simd::Vec p = simd::Set(0.0013264727f);
  p = _mm256_fmadd_ps(p, r, simd::Set(0.0096715126f));
  p = _mm256_fmadd_ps(p, r, simd::Set(0.0555073374f));
  p = _mm256_fmadd_ps(p, r, simd::Set(0.2402224209f));
  p = _mm256_fmadd_ps(p, r, simd::Set(0.6931469776f));
  p = _mm256_fmadd_ps(p, r, simd::Set(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  const simd::Vec below = _mm256_cmp_ps(x, simd::Set(-126.0f), _CMP_LT_OQ);
  return _mm256_andnot_ps(below, _mm256_mul_ps(p, _mm256_castsi256_ps(exponent)));
}

struct ScoreRule {
  float scale;         // of q k^T
  float softcap;       // 0: none
  float query_factor;  // of packed queries

  ScoreRule(const ScoreOptions& options, int64_t head_size)
      : scale(options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<float>(head_size))),
        softcap(options.softcap),
        query_factor(softcap > 0 ? scale / softcap : scale * kLog2E) {}

  // Gradients of keys come by packed queries: what is left of the scale.
  float key_factor() const { return softcap > 0 ? softcap : kLn2; }
  // What scores of a softcap are, by their tanh.
  float cap() const { return softcap * kLog2E; }
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_ATTENTION_SCORES_H_
