#include "kernels/cpu/packing.h"

#include <algorithm>

#include "kernels/cpu/micro_kernel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Eight;  // transposed, which takes tiles of eight by eight

constexpr int64_t kRowsAhead = 4;  // of rows that are read along

// Loads up to 8 rows of up to 8 elements and transposes: afterwards v[p] holds element p of each
// row.
template <typename T>
void LoadTransposed(int64_t rows, int64_t elements, const T* from, int64_t ld, Eight (&v)[8]) {
  const simd::TailEight lanes(std::min<int64_t>(elements, 8));
  for (int64_t row = 0; row < 8; ++row) {
    v[row] = row < rows ? lanes.Load(from + row * ld) : Eight{};
  }
  simd::Transpose(v);
}

// Packing reads a kilobyte or so of a stored row and goes on to the next, which is too short for
// the hardware to look ahead; the address need not be one.
template <typename T>
void Prefetch(const T* from, int64_t rows_ahead, int64_t ld) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(from) + rows_ahead * ld * sizeof(T);
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

void StoreSix(Eight v, float* to) {
  _mm_storeu_ps(to, _mm256_castps256_ps128(v));
  _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(v, 1));
}

// One panel of a whose six rows are stored one after the other.
template <typename T>
void PackRows(int64_t rows, int64_t k, const T* from, int64_t ld, float* to) {
  int64_t p = 0;
  if (rows == kTileRows) {
    for (; p + 8 <= k; p += 8) {
      Eight v[8];
#pragma GCC unroll 6
      for (int64_t row = 0; row < kTileRows; ++row) {
        v[row] = simd::FullEight{}.Load(from + row * ld + p);
        Prefetch(from + row * ld + p, kTileRows, ld);
      }
      v[6] = v[7] = Eight{};
      simd::Transpose(v);
#pragma GCC unroll 8
      for (int64_t i = 0; i < 8; ++i) StoreSix(v[i], to + (p + i) * kTileRows);
    }
  }
  for (; p < k; p += 8) {
    Eight v[8];
    LoadTransposed(rows, k - p, from + p, ld, v);
    for (int64_t i = 0; i < std::min<int64_t>(8, k - p); ++i) {
      StoreSix(v[i], to + (p + i) * kTileRows);
    }
  }
}

// One panel of b whose columns are stored as rows, i.e. b is stored transposed.
template <typename T>
void PackColumnsStoredAsRows(int64_t columns, int64_t k, const T* from, int64_t ld, float* to) {
  for (int64_t half = 0; half < kTileColumns; half += 8) {
    const int64_t rows = std::clamp<int64_t>(columns - half, 0, 8);
    int64_t p = 0;
    for (; rows == 8 && p + 8 <= k; p += 8) {
      Eight v[8];
      const T* block = from + half * ld + p;
#pragma GCC unroll 8
      for (int64_t row = 0; row < 8; ++row) {
        v[row] = simd::FullEight{}.Load(block + row * ld);
        Prefetch(block + row * ld, 8, ld);
      }
      simd::Transpose(v);
#pragma GCC unroll 8
      for (int64_t i = 0; i < 8; ++i) _mm256_storeu_ps(to + (p + i) * kTileColumns + half, v[i]);
    }
    for (; p < k; p += 8) {
      Eight v[8];
      LoadTransposed(rows, k - p, from + half * ld + p, ld, v);
      for (int64_t i = 0; i < std::min<int64_t>(8, k - p); ++i) {
        _mm256_storeu_ps(to + (p + i) * kTileColumns + half, v[i]);
      }
    }
  }
}

}  // namespace

template <typename T>
void PackA(int64_t rows, int64_t k, const T* from, int64_t ld, bool transposed, float* to) {
  if (!transposed) {
    for (int64_t row = 0; row < rows; row += kTileRows, to += kTileRows * k) {
      PackRows(std::min(kTileRows, rows - row), k, from + row * ld, ld, to);
    }
    return;
  }
  // Along stored rows, which may lie pages apart.
  for (int64_t p = 0; p < k; ++p, from += ld, to += kTileRows) {
    int64_t row = 0;
    for (; row + 8 <= rows; row += kTileRows) {
      StoreSix(simd::FullEight{}.Load(from + row), to + row * k);
      Prefetch(from + row, kRowsAhead, ld);
    }
    for (; row < rows; row += kTileRows) {
      const simd::TailEight lanes(std::min(kTileRows, rows - row));
      StoreSix(lanes.Load(from + row), to + row * k);
    }
  }
}

template <typename T>
void PackB(int64_t columns, int64_t k, const T* from, int64_t ld, bool transposed, float* to) {
  if (transposed) {
    for (int64_t column = 0; column < columns; column += kTileColumns, to += kTileColumns * k) {
      PackColumnsStoredAsRows(std::min(kTileColumns, columns - column), k, from + column * ld, ld,
                              to);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p, from += ld, to += kTileColumns) {
    int64_t column = 0;
    for (; column + kTileColumns <= columns; column += kTileColumns) {
      Prefetch(from + column, kRowsAhead, ld);
#pragma GCC unroll 2
      for (int64_t i = 0; i < kTileColumns; i += simd::kLanes) {
        simd::Store(to + column * k + i, simd::Full{}.Load(from + column + i));
      }
    }
    if (column == columns) continue;
    for (int64_t i = 0; i < kTileColumns; i += simd::kLanes) {
      const simd::Tail lanes(std::clamp<int64_t>(columns - column - i, 0, simd::kLanes));
      simd::Store(to + column * k + i, lanes.Load(from + column + i));
    }
  }
}

#define STRATA_PACK(T)                                                    \
  template void PackA(int64_t, int64_t, const T*, int64_t, bool, float*); \
  template void PackB(int64_t, int64_t, const T*, int64_t, bool, float*);
STRATA_PACK(float)
STRATA_PACK(BFloat16)
STRATA_PACK(Float16)
#undef STRATA_PACK

}  // namespace strata::kernels::STRATA_ISA
