#include "kernels/cpu/packing.h"

#include <algorithm>

#include "kernels/cpu/micro_kernel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::FirstLanes;
using simd::Vec;

// Loads up to 8 rows of up to 8 elements and transposes: afterwards v[p] holds element p of each
// row.
void LoadTransposed(int64_t rows, int64_t elements, const float* from, int64_t ld, Vec (&v)[8]) {
  const __m256i mask = FirstLanes(std::min<int64_t>(elements, 8));
  for (int64_t row = 0; row < 8; ++row) {
    v[row] = row < rows ? _mm256_maskload_ps(from + row * ld, mask) : simd::Zero();
  }
  simd::Transpose(v);
}

void LoadTransposedFull(const float* from, int64_t ld, Vec (&v)[8]) {
#pragma GCC unroll 8
  for (int64_t row = 0; row < 8; ++row) v[row] = _mm256_loadu_ps(from + row * ld);
  simd::Transpose(v);
}

void StoreSix(Vec v, float* to) {
  _mm_storeu_ps(to, _mm256_castps256_ps128(v));
  _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(v, 1));
}

// One panel of a whose six rows are stored one after the other.
void PackRows(int64_t rows, int64_t k, const float* from, int64_t ld, float* to) {
  int64_t p = 0;
  if (rows == kTileRows) {
    for (; p + 8 <= k; p += 8) {
      Vec v[8];
#pragma GCC unroll 6
      for (int64_t row = 0; row < kTileRows; ++row) v[row] = _mm256_loadu_ps(from + row * ld + p);
      v[6] = v[7] = simd::Zero();
      simd::Transpose(v);
#pragma GCC unroll 8
      for (int64_t i = 0; i < 8; ++i) StoreSix(v[i], to + (p + i) * kTileRows);
    }
  }
  for (; p < k; p += 8) {
    Vec v[8];
    LoadTransposed(rows, k - p, from + p, ld, v);
    for (int64_t i = 0; i < std::min<int64_t>(8, k - p); ++i) {
      StoreSix(v[i], to + (p + i) * kTileRows);
    }
  }
}

// One panel of b whose sixteen columns are stored as rows, i.e. b is stored transposed.
void PackColumnsStoredAsRows(int64_t columns, int64_t k, const float* from, int64_t ld, float* to) {
  for (int64_t half = 0; half < kTileColumns; half += 8) {
    const int64_t rows = std::clamp<int64_t>(columns - half, 0, 8);
    for (int64_t p = 0; p < k; p += 8) {
      Vec v[8];
      if (rows == 8 && p + 8 <= k) {
        LoadTransposedFull(from + half * ld + p, ld, v);
      } else {
        LoadTransposed(rows, k - p, from + half * ld + p, ld, v);
      }
      for (int64_t i = 0; i < std::min<int64_t>(8, k - p); ++i) {
        _mm256_storeu_ps(to + (p + i) * kTileColumns + half, v[i]);
      }
    }
  }
}

}  // namespace

void PackA(int64_t rows, int64_t k, const float* from, int64_t ld, bool transposed, float* to) {
  for (int64_t row = 0; row < rows; row += kTileRows, to += kTileRows * k) {
    const int64_t panel_rows = std::min(kTileRows, rows - row);
    if (!transposed) {
      PackRows(panel_rows, k, from + row * ld, ld, to);
      continue;
    }
    const __m256i mask = FirstLanes(panel_rows);
    for (int64_t p = 0; p < k; ++p) {
      StoreSix(_mm256_maskload_ps(from + p * ld + row, mask), to + p * kTileRows);
    }
  }
}

void PackB(int64_t columns, int64_t k, const float* from, int64_t ld, bool transposed, float* to) {
  for (int64_t column = 0; column < columns; column += kTileColumns, to += kTileColumns * k) {
    const int64_t panel_columns = std::min(kTileColumns, columns - column);
    if (transposed) {
      PackColumnsStoredAsRows(panel_columns, k, from + column * ld, ld, to);
      continue;
    }
    const __m256i left = FirstLanes(std::min<int64_t>(panel_columns, 8));
    const __m256i right = FirstLanes(std::max<int64_t>(panel_columns - 8, 0));
    for (int64_t p = 0; p < k; ++p) {
      const float* row = from + p * ld + column;
      _mm256_storeu_ps(to + p * kTileColumns, _mm256_maskload_ps(row, left));
      _mm256_storeu_ps(to + p * kTileColumns + 8, _mm256_maskload_ps(row + 8, right));
    }
  }
}

void TransposeBlock(int64_t rows, int64_t k, const float* from, int64_t from_ld, float* to,
                    int64_t to_ld) {
  for (int64_t row = 0; row < rows; row += 8) {
    for (int64_t p = 0; p < k; p += 8) {
      Vec v[8];
      if (row + 8 <= rows && p + 8 <= k) {
        LoadTransposedFull(from + row * from_ld + p, from_ld, v);
      } else {
        LoadTransposed(rows - row, k - p, from + row * from_ld + p, from_ld, v);
      }
      for (int64_t i = 0; i < std::min<int64_t>(8, k - p); ++i) {
        _mm256_storeu_ps(to + (p + i) * to_ld + row, v[i]);
      }
    }
  }
}

}  // namespace strata::kernels
