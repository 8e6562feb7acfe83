// Sixteen rows of a tile in registers.
#ifndef STRATA_KERNELS_CPU_TILE_ROWS_H_
#define STRATA_KERNELS_CPU_TILE_ROWS_H_

#include <immintrin.h>

#include <cstdint>

namespace strata::kernels::avx512::amx {

// Names of the standard library are avoided: see target.h.
struct Rows {
  static constexpr int64_t kCount = 16;
  __m512i rows[kCount];
  __m512i& operator[](int64_t i) { return rows[i]; }
  const __m512i& operator[](int64_t i) const { return rows[i]; }
};

// Of sixteen numbers of 32 bits a row.
inline Rows Transposed(const Rows& rows) {
  Rows pairs, fours, result;
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int half = 0; half < 2; ++half) {
      fours[i + 2 * half] = _mm512_unpacklo_epi64(pairs[i + half], pairs[i + 2 + half]);
      fours[i + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[i + half], pairs[i + 2 + half]);
    }
  }
  // Now row 4g + j holds columns j, 4 + j, 8 + j and 12 + j of rows 4g to 4g + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512i low = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0xdd);
    const __m512i high_odd = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0xdd);
    result[j] = _mm512_shuffle_i32x4(low, high, 0x88);
    result[8 + j] = _mm512_shuffle_i32x4(low, high, 0xdd);
    result[4 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    result[12 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
  return result;
}

}  // namespace strata::kernels::avx512::amx

#endif  // STRATA_KERNELS_CPU_TILE_ROWS_H_
