// Eight f32 lanes of AVX2 with FMA and F16C, in code for every instruction set: simd.h's vectors
// where there is no more, and what takes eight at a time anyway. Only by way of simd.h.
#ifndef STRATA_KERNELS_CPU_SIMD_EIGHT_H_
#define STRATA_KERNELS_CPU_SIMD_EIGHT_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/target.h"
#include "kernels/number_types.h"

namespace strata::kernels::STRATA_ISA::simd {

using Eight = __m256;
using EightInts = __m256i;

inline Eight Add(Eight a, Eight b) { return _mm256_add_ps(a, b); }
inline Eight Sub(Eight a, Eight b) { return _mm256_sub_ps(a, b); }
inline Eight Mul(Eight a, Eight b) { return _mm256_mul_ps(a, b); }
inline Eight Div(Eight a, Eight b) { return _mm256_div_ps(a, b); }
inline Eight Sqrt(Eight a) { return _mm256_sqrt_ps(a); }
inline Eight Floor(Eight a) { return _mm256_floor_ps(a); }
// a * b + c, a * b - c, c - a * b: rounded once.
inline Eight MulAdd(Eight a, Eight b, Eight c) { return _mm256_fmadd_ps(a, b, c); }
inline Eight MulSub(Eight a, Eight b, Eight c) { return _mm256_fmsub_ps(a, b, c); }
inline Eight NegMulAdd(Eight a, Eight b, Eight c) { return _mm256_fnmadd_ps(a, b, c); }
// b where either is NaN.
inline Eight Max(Eight a, Eight b) { return _mm256_max_ps(a, b); }
inline Eight Min(Eight a, Eight b) { return _mm256_min_ps(a, b); }
inline Eight And(Eight a, Eight b) { return _mm256_and_ps(a, b); }
inline Eight Or(Eight a, Eight b) { return _mm256_or_ps(a, b); }
inline Eight Xor(Eight a, Eight b) { return _mm256_xor_ps(a, b); }
inline Eight AndNot(Eight a, Eight b) { return _mm256_andnot_ps(a, b); }  // not a, and b
inline float First(Eight v) { return _mm256_cvtss_f32(v); }

// What lanes compare to: all bits of a lane, or none.
struct EightMask {
  Eight bits;
};
inline EightMask Less(Eight a, Eight b) { return {_mm256_cmp_ps(a, b, _CMP_LT_OQ)}; }
inline EightMask Greater(Eight a, Eight b) { return {_mm256_cmp_ps(a, b, _CMP_GT_OQ)}; }
// Also of NaN.
inline EightMask NotAtMost(Eight a, Eight b) { return {_mm256_cmp_ps(a, b, _CMP_NLE_UQ)}; }
inline EightMask Differs(Eight a, Eight b) { return {_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)}; }
inline EightMask IsNan(Eight a) { return {_mm256_cmp_ps(a, a, _CMP_UNORD_Q)}; }
inline EightMask IsNegative(Eight a) { return {a}; }  // by its sign, also of -0 and NaN
inline Eight Choose(EightMask mask, Eight yes, Eight no) {
  return _mm256_blendv_ps(no, yes, mask.bits);
}
inline Eight ZeroWhere(EightMask mask, Eight v) { return _mm256_andnot_ps(mask.bits, v); }
inline Eight KeepWhere(EightMask mask, Eight v) { return _mm256_and_ps(mask.bits, v); }
inline int Bits(EightMask mask) { return _mm256_movemask_ps(mask.bits); }  // one per lane

// Integers of 32 bits.
inline EightInts AsInts(Eight v) { return _mm256_castps_si256(v); }
inline Eight AsFloats(EightInts v) { return _mm256_castsi256_ps(v); }
inline EightInts Add(EightInts a, EightInts b) { return _mm256_add_epi32(a, b); }
inline EightInts And(EightInts a, EightInts b) { return _mm256_and_si256(a, b); }
inline EightInts Or(EightInts a, EightInts b) { return _mm256_or_si256(a, b); }
template <int kBits>
inline EightInts ShiftLeft(EightInts v) {
  return _mm256_slli_epi32(v, kBits);
}
template <int kBits>
inline EightInts ShiftRight(EightInts v) {
  return _mm256_srli_epi32(v, kBits);
}
inline EightInts Choose(EightMask mask, EightInts yes, EightInts no) {
  return _mm256_blendv_epi8(no, yes, AsInts(mask.bits));
}
// Adds 1 where the mask says so.
inline EightInts Count(EightMask mask, EightInts v) {
  return _mm256_sub_epi32(v, AsInts(mask.bits));
}
inline EightInts Nearest(Eight v) { return _mm256_cvtps_epi32(v); }
inline Eight ToFloats(EightInts v) { return _mm256_cvtepi32_ps(v); }
// Entries of a table of eight or of sixteen.
inline Eight EntriesOfEight(const float* table, EightInts at) {
  return _mm256_permutevar8x32_ps(_mm256_load_ps(table), at);
}
inline Eight EntriesOfSixteen(const float* table, EightInts at) {
  // The permutations read three bits of each lane, the fourth says which of them counts.
  const Eight lower = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
  const Eight upper = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), at);
  return Choose(IsNegative(AsFloats(ShiftLeft<28>(at))), upper, lower);
}

// Constants of eight lanes.
inline void SetTo(float x, Eight& v) { v = _mm256_set1_ps(x); }
inline void SetTo(int x, EightInts& v) { v = _mm256_set1_epi32(x); }

// Reading of eight smaller integers; writing of those that fit.
inline EightInts LoadWords(const void* from, Eight) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
inline EightInts LoadSignedWords(const void* from, Eight) {
  return _mm256_cvtepi16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
inline EightInts LoadSignedBytes(const void* from, Eight) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
}
// Halves of four bytes, the upper one first; above them there are other bits.
inline EightInts LoadHalves(const uint8_t* from, Eight) {
  int32_t four;
  std::memcpy(&four, from, sizeof(four));
  const __m128i twice = _mm_shuffle_epi8(
      _mm_cvtsi32_si128(four), _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0));
  return _mm256_srlv_epi32(_mm256_cvtepu8_epi32(twice), _mm256_setr_epi32(4, 0, 4, 0, 4, 0, 4, 0));
}
inline __m128i PackWords(EightInts v) {
  return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
inline void StoreWords(void* to, EightInts v) {
  _mm_storeu_si128(static_cast<__m128i*>(to), PackWords(v));
}
// Past the caches, to a multiple of the vector's bytes.
inline void StreamWords(void* to, EightInts v) {
  _mm_stream_si128(static_cast<__m128i*>(to), PackWords(v));
}
inline void StoreBytes(void* to, EightInts v) {
  const __m128i words = PackWords(v);
  _mm_storel_epi64(static_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

// The first n lanes on, n in [0, 8].
inline EightInts FirstOfEight(int64_t n) {
  const EightInts lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

// Eight numbers of 16 bits to f32 and back; back is the nearest, ties to even.
inline Eight Widen(__m128i bits, BFloat16) {
  return AsFloats(ShiftLeft<16>(_mm256_cvtepu16_epi32(bits)));
}
inline Eight Widen(__m128i bits, Float16) { return _mm256_cvtph_ps(bits); }
inline __m128i Narrow(Eight v, BFloat16) {
  const EightInts bits = AsInts(v);
  const EightInts odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const EightInts half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const EightInts quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const EightInts nan = AsInts(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const EightInts rounded = _mm256_blendv_epi8(_mm256_add_epi32(bits, half), quiet, nan);
  return PackWords(_mm256_srli_epi32(rounded, 16));
}
inline __m128i Narrow(Eight v, Float16) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// How a loop body reads and writes: all eight lanes, or the first few at the end of a row, where
// the others read as zero (or are `other`) and are not written.
struct FullEight {
  Eight Load(const float* p) const { return _mm256_loadu_ps(p); }
  template <typename T>
  Eight Load(const T* p) const {
    return Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), T{});
  }
  Eight Or(Eight v, Eight) const { return v; }
  template <typename T>
  Eight LoadOr(const T* p, Eight) const {
    return Load(p);
  }
  EightInts LoadSignedBytes(const int8_t* p) const { return simd::LoadSignedBytes(p, Eight{}); }
  void Store(float* p, Eight v) const { _mm256_storeu_ps(p, v); }
  template <typename T>
  void Store(T* p, Eight v) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Narrow(v, T{}));
  }
};
struct TailEight {
  EightInts mask;
  size_t count;
  explicit TailEight(int64_t n) : mask(FirstOfEight(n)), count(n) {}
  Eight Load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  // There are no masks for 16 bits.
  template <typename T>
  Eight Load(const T* p) const {
    alignas(16) T copy[8] = {};
    std::memcpy(copy, p, count * sizeof(T));
    return FullEight{}.Load(copy);
  }
  Eight Or(Eight v, Eight other) const { return _mm256_blendv_ps(other, v, AsFloats(mask)); }
  template <typename T>
  Eight LoadOr(const T* p, Eight other) const {
    return Or(Load(p), other);
  }
  EightInts LoadSignedBytes(const int8_t* p) const {
    int8_t copy[8] = {};
    std::memcpy(copy, p, count);
    return simd::LoadSignedBytes(copy, Eight{});
  }
  void Store(float* p, Eight v) const { _mm256_maskstore_ps(p, mask, v); }
  template <typename T>
  void Store(T* p, Eight v) const {
    alignas(16) T copy[8];
    FullEight{}.Store(copy, v);
    std::memcpy(p, copy, count * sizeof(T));
  }
};

inline float Sum(Eight v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}

// NaN lanes may or may not come through; users of a maximum meet the NaN again in what follows.
inline float Max(Eight v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

inline double Sum(__m256d v) {
  const __m128d x = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
}

// Transposes an 8 x 8 tile held in rows.
inline void Transpose(Eight (&v)[8]) {
  const Eight a0 = _mm256_unpacklo_ps(v[0], v[1]), a1 = _mm256_unpackhi_ps(v[0], v[1]);
  const Eight a2 = _mm256_unpacklo_ps(v[2], v[3]), a3 = _mm256_unpackhi_ps(v[2], v[3]);
  const Eight a4 = _mm256_unpacklo_ps(v[4], v[5]), a5 = _mm256_unpackhi_ps(v[4], v[5]);
  const Eight a6 = _mm256_unpacklo_ps(v[6], v[7]), a7 = _mm256_unpackhi_ps(v[6], v[7]);
  const Eight b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const Eight b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const Eight b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const Eight b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  v[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  v[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  v[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  v[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  v[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  v[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  v[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  v[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

// The maximum, or the sum, of the lanes of each of eight: of the first in the first lane.
inline Eight MaxOfEach(Eight (&rows)[8]) {
  Transpose(rows);
  Eight highest = rows[0];
  for (int64_t i = 1; i < 8; ++i) highest = Max(rows[i], highest);
  return highest;
}
inline Eight SumOfEach(Eight (&rows)[8]) {
  Transpose(rows);
  const Eight a = Add(rows[0], rows[1]), b = Add(rows[2], rows[3]);
  const Eight c = Add(rows[4], rows[5]), d = Add(rows[6], rows[7]);
  return Add(Add(a, b), Add(c, d));
}

}  // namespace strata::kernels::STRATA_ISA::simd

#endif  // STRATA_KERNELS_CPU_SIMD_EIGHT_H_
