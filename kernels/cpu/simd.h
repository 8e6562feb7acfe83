// Eight f32 lanes of AVX2 with FMA and F16C, ends of rows included. Only for files built with
// -mavx2 -mfma -mf16c.
#ifndef STRATA_KERNELS_CPU_SIMD_H_
#define STRATA_KERNELS_CPU_SIMD_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/number_types.h"

namespace strata::kernels::simd {

using Vec = __m256;
inline constexpr int64_t kLanes = 8;

// The first n lanes on, n in [0, 8].
inline __m256i FirstLanes(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

// Eight numbers of 16 bits to f32 and back; back is the nearest, ties to even.
inline Vec Widen(__m128i bits, BFloat16) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec Widen(__m128i bits, Float16) { return _mm256_cvtph_ps(bits); }
inline __m128i Narrow(Vec v, BFloat16) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_blendv_epi8(_mm256_add_epi32(bits, half), quiet, nan);
  const __m256i upper = _mm256_srli_epi32(rounded, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}
inline __m128i Narrow(Vec v, Float16) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// What v becomes when it is stored as a T and loaded again.
template <typename T>
Vec Rounded(Vec v) {
  return Widen(Narrow(v, T{}), T{});
}
template <>
inline Vec Rounded<float>(Vec v) {
  return v;
}

// How a loop body reads and writes: all eight lanes, or the first few at the end of a row, where
// the others read as zero (or are `other`) and are not written.
struct Full {
  Vec Load(const float* p) const { return _mm256_loadu_ps(p); }
  template <typename T>
  Vec Load(const T* p) const {
    return Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), T{});
  }
  Vec Or(Vec v, Vec) const { return v; }
  template <typename T>
  Vec LoadOr(const T* p, Vec) const {
    return Load(p);
  }
  void Store(float* p, Vec v) const { _mm256_storeu_ps(p, v); }
  template <typename T>
  void Store(T* p, Vec v) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Narrow(v, T{}));
  }
};
struct Tail {
  __m256i mask;
  size_t count;
  explicit Tail(int64_t n) : mask(FirstLanes(n)), count(n) {}
  Vec Load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  // There are no masks for 16 bits.
  template <typename T>
  Vec Load(const T* p) const {
    alignas(16) T copy[kLanes] = {};
    std::memcpy(copy, p, count * sizeof(T));
    return Full{}.Load(copy);
  }
  Vec Or(Vec v, Vec other) const { return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(mask)); }
  template <typename T>
  Vec LoadOr(const T* p, Vec other) const {
    return Or(Load(p), other);
  }
  void Store(float* p, Vec v) const { _mm256_maskstore_ps(p, mask, v); }
  template <typename T>
  void Store(T* p, Vec v) const {
    alignas(16) T copy[kLanes];
    Full{}.Store(copy, v);
    std::memcpy(p, copy, count * sizeof(T));
  }
};

// body(i, lanes) for i = 0, 8, ... below n.
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

inline Vec Set(float x) { return _mm256_set1_ps(x); }
inline Vec Zero() { return _mm256_setzero_ps(); }

inline float Sum(Vec v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}

// NaN lanes may or may not come through; users of a maximum meet the NaN again in what follows.
inline float Max(Vec v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

inline double Sum(__m256d v) {
  const __m128d x = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
}

// e^x to about one unit in the last place. Below -86.6 the result is zero, above 88.722 infinity;
// NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2 and ln 2 in two parts (Cody and Waite, 1980);
// e^r by a polynomial whose last five coefficients minimise the largest relative error (2^-28);
// 2^n by adding n to the exponent.
inline Vec Exp(Vec x) {
  const Vec infinity = Set(__builtin_inff());
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const Vec shift = Set(12582912.0f);
  const Vec shifted = _mm256_fmadd_ps(x, Set(1.44269504088896341f), shift);
  const Vec n = _mm256_sub_ps(shifted, shift);
  Vec r = _mm256_fnmadd_ps(n, Set(0.693359375f), x);
  r = _mm256_fnmadd_ps(n, Set(-2.12194440e-4f), r);
  Vec p = Set(0.001381454f);
  p = _mm256_fmadd_ps(p, r, Set(0.00836874512f));
  p = _mm256_fmadd_ps(p, r, Set(0.0416683908f));
  p = _mm256_fmadd_ps(p, r, Set(0.166665204f));
  p = _mm256_fmadd_ps(p, r, Set(0.499999934f));
  p = _mm256_fmadd_ps(p, r, Set(1.0f));
  p = _mm256_fmadd_ps(p, r, Set(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  // Where the sum left the range of exponents, or x is NaN.
  const Vec above = _mm256_cmp_ps(x, Set(88.722839f), _CMP_NLE_UQ);
  const Vec below = _mm256_cmp_ps(x, Set(-86.6f), _CMP_LT_OQ);
  p = _mm256_blendv_ps(p, _mm256_add_ps(x, infinity), above);
  return _mm256_andnot_ps(below, p);
}

// Transposes an 8 x 8 tile held in rows.
inline void Transpose(Vec (&v)[8]) {
  const Vec a0 = _mm256_unpacklo_ps(v[0], v[1]), a1 = _mm256_unpackhi_ps(v[0], v[1]);
  const Vec a2 = _mm256_unpacklo_ps(v[2], v[3]), a3 = _mm256_unpackhi_ps(v[2], v[3]);
  const Vec a4 = _mm256_unpacklo_ps(v[4], v[5]), a5 = _mm256_unpackhi_ps(v[4], v[5]);
  const Vec a6 = _mm256_unpacklo_ps(v[6], v[7]), a7 = _mm256_unpackhi_ps(v[6], v[7]);
  const Vec b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const Vec b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const Vec b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const Vec b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  v[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  v[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  v[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  v[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  v[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  v[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  v[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  v[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

}  // namespace strata::kernels::simd

#endif  // STRATA_KERNELS_CPU_SIMD_H_
