// Sixteen f32 lanes of AVX-512 F, BW, DQ and VL: simd_eight.h's functions, of the same meaning.
// Only by way of simd.h.
#ifndef STRATA_KERNELS_CPU_SIMD_SIXTEEN_H_
#define STRATA_KERNELS_CPU_SIMD_SIXTEEN_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd_eight.h"
#include "kernels/cpu/target.h"
#include "kernels/number_types.h"

namespace strata::kernels::STRATA_ISA::simd {

using Sixteen = __m512;
using SixteenInts = __m512i;

inline Sixteen Add(Sixteen a, Sixteen b) { return _mm512_add_ps(a, b); }
inline Sixteen Sub(Sixteen a, Sixteen b) { return _mm512_sub_ps(a, b); }
inline Sixteen Mul(Sixteen a, Sixteen b) { return _mm512_mul_ps(a, b); }
inline Sixteen Div(Sixteen a, Sixteen b) { return _mm512_div_ps(a, b); }
inline Sixteen Sqrt(Sixteen a) { return _mm512_sqrt_ps(a); }
inline Sixteen Floor(Sixteen a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
inline Sixteen MulAdd(Sixteen a, Sixteen b, Sixteen c) { return _mm512_fmadd_ps(a, b, c); }
inline Sixteen MulSub(Sixteen a, Sixteen b, Sixteen c) { return _mm512_fmsub_ps(a, b, c); }
inline Sixteen NegMulAdd(Sixteen a, Sixteen b, Sixteen c) { return _mm512_fnmadd_ps(a, b, c); }
inline Sixteen Max(Sixteen a, Sixteen b) { return _mm512_max_ps(a, b); }
inline Sixteen Min(Sixteen a, Sixteen b) { return _mm512_min_ps(a, b); }
inline Sixteen And(Sixteen a, Sixteen b) { return _mm512_and_ps(a, b); }
inline Sixteen Or(Sixteen a, Sixteen b) { return _mm512_or_ps(a, b); }
inline Sixteen Xor(Sixteen a, Sixteen b) { return _mm512_xor_ps(a, b); }
inline Sixteen AndNot(Sixteen a, Sixteen b) { return _mm512_andnot_ps(a, b); }
inline float First(Sixteen v) { return _mm512_cvtss_f32(v); }

using SixteenMask = __mmask16;
inline SixteenMask Less(Sixteen a, Sixteen b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline SixteenMask Greater(Sixteen a, Sixteen b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline SixteenMask NotAtMost(Sixteen a, Sixteen b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ); }
inline SixteenMask Differs(Sixteen a, Sixteen b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
inline SixteenMask IsNan(Sixteen a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline SixteenMask IsNegative(Sixteen a) { return _mm512_movepi32_mask(_mm512_castps_si512(a)); }
inline Sixteen Choose(SixteenMask mask, Sixteen yes, Sixteen no) {
  return _mm512_mask_blend_ps(mask, no, yes);
}
inline Sixteen ZeroWhere(SixteenMask mask, Sixteen v) {
  return _mm512_maskz_mov_ps(_knot_mask16(mask), v);
}
inline Sixteen KeepWhere(SixteenMask mask, Sixteen v) { return _mm512_maskz_mov_ps(mask, v); }
inline int Bits(SixteenMask mask) { return mask; }

inline SixteenInts AsInts(Sixteen v) { return _mm512_castps_si512(v); }
inline Sixteen AsFloats(SixteenInts v) { return _mm512_castsi512_ps(v); }
inline SixteenInts Add(SixteenInts a, SixteenInts b) { return _mm512_add_epi32(a, b); }
inline SixteenInts And(SixteenInts a, SixteenInts b) { return _mm512_and_si512(a, b); }
inline SixteenInts Or(SixteenInts a, SixteenInts b) { return _mm512_or_si512(a, b); }
template <int kBits>
inline SixteenInts ShiftLeft(SixteenInts v) {
  return _mm512_slli_epi32(v, kBits);
}
template <int kBits>
inline SixteenInts ShiftRight(SixteenInts v) {
  return _mm512_srli_epi32(v, kBits);
}
inline SixteenInts Choose(SixteenMask mask, SixteenInts yes, SixteenInts no) {
  return _mm512_mask_blend_epi32(mask, no, yes);
}
inline SixteenInts Count(SixteenMask mask, SixteenInts v) {
  return _mm512_mask_add_epi32(v, mask, v, _mm512_set1_epi32(1));
}
inline SixteenInts Nearest(Sixteen v) { return _mm512_cvtps_epi32(v); }
inline Sixteen ToFloats(SixteenInts v) { return _mm512_cvtepi32_ps(v); }
inline Sixteen EntriesOfEight(const float* table, SixteenInts at) {
  return _mm512_permutexvar_ps(at, _mm512_broadcast_f32x8(_mm256_load_ps(table)));
}
inline Sixteen EntriesOfSixteen(const float* table, SixteenInts at) {
  return _mm512_permutexvar_ps(at, _mm512_loadu_ps(table));
}

inline void SetTo(float x, Sixteen& v) { v = _mm512_set1_ps(x); }
inline void SetTo(int x, SixteenInts& v) { v = _mm512_set1_epi32(x); }

inline SixteenInts LoadWords(const void* from, Sixteen) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
inline SixteenInts LoadSignedWords(const void* from, Sixteen) {
  return _mm512_cvtepi16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
inline SixteenInts LoadSignedBytes(const void* from, Sixteen) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
inline SixteenInts LoadHalves(const uint8_t* from, Sixteen) {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm512_srlv_epi32(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(eight, eight)),
                           _mm512_broadcastq_epi64(_mm_set1_epi64x(4)));
}
inline void StoreWords(void* to, SixteenInts v) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(v));
}
inline void StreamWords(void* to, SixteenInts v) {
  _mm256_stream_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(v));
}
inline void StoreBytes(void* to, SixteenInts v) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v));
}

inline Sixteen Widen(__m256i bits, BFloat16) {
  return AsFloats(ShiftLeft<16>(_mm512_cvtepu16_epi32(bits)));
}
inline Sixteen Widen(__m256i bits, Float16) { return _mm512_cvtph_ps(bits); }
inline __m256i Narrow(Sixteen v, BFloat16) {
  const SixteenInts bits = AsInts(v);
  const SixteenInts odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const SixteenInts half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const SixteenMask nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const SixteenInts rounded =
      _mm512_mask_or_epi32(_mm512_add_epi32(bits, half), nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
inline __m256i Narrow(Sixteen v, Float16) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

struct FullSixteen {
  Sixteen Load(const float* p) const { return _mm512_loadu_ps(p); }
  template <typename T>
  Sixteen Load(const T* p) const {
    return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), T{});
  }
  Sixteen Or(Sixteen v, Sixteen) const { return v; }
  template <typename T>
  Sixteen LoadOr(const T* p, Sixteen) const {
    return Load(p);
  }
  SixteenInts LoadSignedBytes(const int8_t* p) const { return simd::LoadSignedBytes(p, Sixteen{}); }
  void Store(float* p, Sixteen v) const { _mm512_storeu_ps(p, v); }
  template <typename T>
  void Store(T* p, Sixteen v) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Narrow(v, T{}));
  }
};
struct TailSixteen {
  SixteenMask mask;
  explicit TailSixteen(int64_t n) : mask(static_cast<SixteenMask>((1U << n) - 1)) {}
  Sixteen Load(const float* p) const { return _mm512_maskz_loadu_ps(mask, p); }
  template <typename T>
  Sixteen Load(const T* p) const {
    return Widen(_mm256_maskz_loadu_epi16(mask, p), T{});
  }
  Sixteen Or(Sixteen v, Sixteen other) const { return Choose(mask, v, other); }
  template <typename T>
  Sixteen LoadOr(const T* p, Sixteen other) const {
    return Or(Load(p), other);
  }
  SixteenInts LoadSignedBytes(const int8_t* p) const {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, p));
  }
  void Store(float* p, Sixteen v) const { _mm512_mask_storeu_ps(p, mask, v); }
  template <typename T>
  void Store(T* p, Sixteen v) const {
    _mm256_mask_storeu_epi16(p, mask, Narrow(v, T{}));
  }
};

inline Eight LowerHalf(Sixteen v) { return _mm512_castps512_ps256(v); }
inline Eight UpperHalf(Sixteen v) { return _mm512_extractf32x8_ps(v, 1); }
inline float Sum(Sixteen v) { return Sum(Add(LowerHalf(v), UpperHalf(v))); }
inline float Max(Sixteen v) { return Max(Max(LowerHalf(v), UpperHalf(v))); }

inline Sixteen MaxOfEach(Sixteen (&rows)[8]) {
  Eight folded[8];
  for (int64_t i = 0; i < 8; ++i) folded[i] = Max(LowerHalf(rows[i]), UpperHalf(rows[i]));
  return _mm512_zextps256_ps512(MaxOfEach(folded));
}
inline Sixteen SumOfEach(Sixteen (&rows)[8]) {
  Eight folded[8];
  for (int64_t i = 0; i < 8; ++i) folded[i] = Add(LowerHalf(rows[i]), UpperHalf(rows[i]));
  return _mm512_zextps256_ps512(SumOfEach(folded));
}

}  // namespace strata::kernels::STRATA_ISA::simd

#endif  // STRATA_KERNELS_CPU_SIMD_SIXTEEN_H_
