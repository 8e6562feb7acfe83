#include "kernels/cpu/tile_product.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/tile_rows.h"

namespace strata::kernels::avx512::amx {
namespace {

constexpr int64_t kRows = Rows::kCount;
constexpr int64_t kTileNumbers = kRows * kTileDepth, kTileSums = kRows * 16;

__mmask32 First(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << (count > 0 ? count : 0)) - 1;
}

// Sixteen stored rows of 32 numbers; `rows` and `columns` of them are there.
Rows Load(const BFloat16* from, int64_t ld, int64_t rows, int64_t columns) {
  const __mmask32 mask = First(columns);
  constexpr int64_t kAhead = 512;  // numbers
  Rows result;
  for (int64_t i = 0; i < kRows; ++i) {
    if (columns > kAhead) {
      _mm_prefetch(reinterpret_cast<const char*>(from + i * ld + kAhead), _MM_HINT_T0);
    }
    result[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * ld) : _mm512_setzero_si512();
  }
  return result;
}

// 32 stored rows of sixteen numbers, two rows side by side in one.
Rows LoadPairs(const BFloat16* from, int64_t ld, int64_t rows, int64_t columns) {
  const auto mask = static_cast<__mmask16>(First(columns));
  const auto widened = [=](int64_t row) {
    if (row >= rows) return _mm512_setzero_si512();
    _mm_prefetch(reinterpret_cast<const char*>(from + (row + 2 * kRows) * ld), _MM_HINT_T0);
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + row * ld));
  };
  Rows result;
  for (int64_t i = 0; i < kRows; ++i) {
    result[i] = _mm512_or_si512(widened(2 * i), _mm512_slli_epi32(widened(2 * i + 1), 16));
  }
  return result;
}

void Store(const Rows& rows, BFloat16* to) {
  for (int64_t i = 0; i < kRows; ++i) _mm512_storeu_si512(to + i * kTileDepth, rows[i]);
}

// Along k first where stored rows are along it, else along the stored rows.
template <bool kTranspose>
void PackPanels(int64_t count, int64_t k, const BFloat16* from, int64_t ld, bool along_k,
                BFloat16* to) {
  const int64_t panels = (count + kPanel - 1) / kPanel, depths = (k + kTileDepth - 1) / kTileDepth;
  for (int64_t i = 0; i < panels * depths; ++i) {
    const int64_t panel = along_k ? i / depths : i % panels, first = panel * kPanel;
    const int64_t depth = along_k ? i % depths : i / panels, k0 = depth * kTileDepth;
    BFloat16* tile = to + (panel * depths + depth) * 2 * kTileNumbers;
    for (int64_t half = 0; half < kPanel; half += kRows, tile += kTileNumbers) {
      const int64_t at = first + half;
      const Rows rows = along_k ? Load(from + at * ld + k0, ld, count - at, k - k0)
                                : LoadPairs(from + k0 * ld + at, ld, k - k0, count - at);
      Store(along_k == kTranspose ? Transposed(rows) : rows, tile);
    }
  }
}

// Sixteen numbers of c, where the mask has them.
__m512 LoadNumbers(const float* from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
__m512 LoadNumbers(const BFloat16* from, __mmask16 mask) {
  const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
void StoreNumbers(float* to, __mmask16 mask, __m512 v) { _mm512_mask_storeu_ps(to, mask, v); }
// To the nearest, ties to even; denormal numbers become zero.
void StoreNumbers(BFloat16* to, __mmask16 mask, __m512 v) {
  _mm256_mask_storeu_epi16(to, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}

template <typename T>
void Write(const float* sums, int64_t rows, int64_t columns, bool accumulate, T* c, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i, c += ldc) {
    const float* row = sums + i / kRows * 2 * kTileSums + i % kRows * 16;
    for (int64_t j = 0; j < columns; j += 16, row += kTileSums) {
      const auto mask = static_cast<__mmask16>(First(columns - j));
      __m512 value = _mm512_loadu_ps(row);
      if (accumulate) value = _mm512_add_ps(value, LoadNumbers(c + j, mask));
      StoreNumbers(c + j, mask, value);
    }
  }
}

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

constexpr int kArchRequestStatePermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
constexpr int kTileDataFeature = 18;                 // XFEATURE_XTILEDATA

}  // namespace

void PackPanelsOfA(int64_t count, int64_t k, const BFloat16* from, int64_t ld, bool along_k,
                   BFloat16* to) {
  PackPanels<false>(count, k, from, ld, along_k, to);
}

void PackPanelsOfB(int64_t count, int64_t k, const BFloat16* from, int64_t ld, bool along_k,
                   BFloat16* to) {
  PackPanels<true>(count, k, from, ld, along_k, to);
}

bool AllowTiles() {
  return syscall(SYS_arch_prctl, kArchRequestStatePermission, kTileDataFeature) == 0;
}

TileScope::TileScope() {
  static constexpr TileShapes kShapes = [] {
    TileShapes shapes;
    for (int tile = 0; tile < 8; ++tile) shapes.row_bytes[tile] = 64, shapes.rows[tile] = 16;
    return shapes;
  }();
  _tile_storeconfig(before_);
  _tile_loadconfig(&kShapes);
}

TileScope::~TileScope() {
  if (before_[0] == 0) {
    _tile_release();
  } else {
    _tile_loadconfig(before_);
  }
}

void Multiply(int64_t k, const BFloat16* a, const BFloat16* b, float* sums, bool accumulate,
              const Ahead& ahead) {
  constexpr int64_t kLine = 64;  // bytes of a tile's row
  if (ahead.rows != nullptr) {
    const auto* row = static_cast<const char*>(ahead.rows);
    for (int64_t i = 0; i < kPanel; ++i, row += ahead.row_bytes) {
      _mm_prefetch(row, _MM_HINT_T1);
      _mm_prefetch(row + kLine, _MM_HINT_T1);
    }
  }
  const auto* line = static_cast<const char*>(ahead.lines);
  const int64_t depths = (k + kTileDepth - 1) / kTileDepth;
  const int64_t lines_each = (ahead.count + depths - 1) / depths;
  if (accumulate) {
    _tile_loadd(0, sums, kLine);
    _tile_loadd(1, sums + kTileSums, kLine);
    _tile_loadd(2, sums + 2 * kTileSums, kLine);
    _tile_loadd(3, sums + 3 * kTileSums, kLine);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t depth = 0; depth < depths; ++depth) {
    for (int64_t i = 0; i < lines_each; ++i, line += kLine) _mm_prefetch(line, _MM_HINT_T1);
    _tile_loadd(4, a, kLine);
    _tile_loadd(6, b, kLine);
    _tile_loadd(7, b + kTileNumbers, kLine);
    _tile_loadd(5, a + kTileNumbers, kLine);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += 2 * kTileNumbers;
    b += 2 * kTileNumbers;
  }
  _tile_stored(0, sums, kLine);
  _tile_stored(1, sums + kTileSums, kLine);
  _tile_stored(2, sums + 2 * kTileSums, kLine);
  _tile_stored(3, sums + 3 * kTileSums, kLine);
}

void WriteSums(const float* sums, int64_t rows, int64_t columns, bool accumulate, float* c,
               int64_t ldc) {
  Write(sums, rows, columns, accumulate, c, ldc);
}
void WriteSums(const float* sums, int64_t rows, int64_t columns, bool accumulate, BFloat16* c,
               int64_t ldc) {
  Write(sums, rows, columns, accumulate, c, ldc);
}

}  // namespace strata::kernels::avx512::amx
