// From products of queries and keys to exponents of two. Queries are packed times a factor, so that
// a product is a score in units of ln 2 already, or the argument of a softcap's tanh.
#ifndef STRATA_KERNELS_CPU_ATTENTION_SCORES_H_
#define STRATA_KERNELS_CPU_ATTENTION_SCORES_H_

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2 = 0.69314718055994531f;

// 2^x for x of at most 127, to 1.5 * 2^-24 and rounding; zero below -126, and NaN stays NaN. x = n
// + r with |r| <= 1/2; 2^r by the polynomial with the least largest relative error of those with
// 2^0 = 1.
inline simd::Vec Exp2(simd::Vec x) {
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits, here with the
  // exponent's bias.
  const simd::Vec shift = simd::Set(12582912.0f + 127.0f);
  const simd::Vec shifted = simd::Add(x, shift);
  const simd::Vec r = simd::Sub(x, simd::Sub(shifted, shift));
  simd::Vec p = simd::Set(0.0013264727f);
  p = simd::MulAdd(p, r, simd::Set(0.0096715126f));
  p = simd::MulAdd(p, r, simd::Set(0.0555073374f));
  p = simd::MulAdd(p, r, simd::Set(0.2402224209f));
  p = simd::MulAdd(p, r, simd::Set(0.6931469776f));
  p = simd::MulAdd(p, r, simd::Set(1.0f));
  const simd::Vec power = simd::AsFloats(simd::ShiftLeft<23>(simd::AsInts(shifted)));
  return simd::ZeroWhere(simd::Less(x, simd::Set(-126.0f)), simd::Mul(p, power));
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

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_ATTENTION_SCORES_H_
