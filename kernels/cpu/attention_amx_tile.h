// What the forward and the backward of attention by AMX tiles share. A group's rows are those of
// all query heads of one key/value head, position by position (row = position * G + head, G heads
// per group); 32 of them, or of the keys, are a panel.
#ifndef STRATA_KERNELS_CPU_ATTENTION_AMX_TILE_H_
#define STRATA_KERNELS_CPU_ATTENTION_AMX_TILE_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_product.h"

namespace strata::kernels::avx512::amx {

using simd::Vec;

inline constexpr int64_t kHalf = kPanel / 2;        // rows of a tile, lanes of a vector
inline constexpr int64_t kBlock = kPanel * kPanel;  // numbers of two panels' product
static_assert(kHalf == simd::kLanes && kPanel == kTileDepth);

// Where sixteen numbers of a row of a block lie: those of its left half, or right.
inline constexpr int64_t InBlock(int64_t row, int64_t half) {
  return ((row / kHalf * 2 + half) * kHalf + row % kHalf) * kHalf;
}

inline BFloat16* TakeNumbers(Carver& carver, int64_t count) {
  return reinterpret_cast<BFloat16*>(carver.Take(count / 2));
}

// 2^x for x of at most 127 to 2^-18; zero for an infinitely small one, and NaN stays NaN. 2^r of
// 0 <= r < 1 by the polynomial of the fourth degree with the least largest relative error.
inline Vec Exp2OfTile(Vec x) {
  const Vec r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec p = simd::Set(0.0135341681F);
  p = simd::MulAdd(p, r, simd::Set(0.0520114603F));
  p = simd::MulAdd(p, r, simd::Set(0.241442757F));
  p = simd::MulAdd(p, r, simd::Set(0.693003834F));
  p = simd::MulAdd(p, r, simd::Set(1.00000259F));
  return _mm512_scalef_ps(p, x);
}

// Two vectors as a tile's row of 32 numbers.
inline __m512i Narrowed(Vec left, Vec right) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(right, left));
}

// The lanes [first, end) of sixteen.
inline __mmask16 LanesFrom(int64_t first, int64_t end) {
  const auto below = [](int64_t n) { return (1U << std::clamp<int64_t>(n, 0, kHalf)) - 1; };
  return static_cast<__mmask16>(below(end) & ~below(first));
}

// Which keys rows see: [first, last] each. Neither falls from one row to the next.
struct Visible {
  int32_t *first, *last;

  // Of none, which no key of a panel gets through to.
  void SetNone(int64_t row) const {
    first[row] = std::numeric_limits<int32_t>::max();
    last[row] = -1;
  }
};

// The keys that a panel's rows see: some of them [any_first, any_last], all [all_first, all_last].
struct PanelSight {
  int32_t any_first = std::numeric_limits<int32_t>::max(), any_last = -1;
  int32_t all_first = 0, all_last = std::numeric_limits<int32_t>::max();

  PanelSight() = default;
  PanelSight(const Visible& visible, int64_t row) {
    for (int64_t i = row; i < row + kPanel; ++i) {
      any_first = std::min(any_first, visible.first[i]);
      any_last = std::max(any_last, visible.last[i]);
      all_first = std::max(all_first, visible.first[i]);
      all_last = std::min(all_last, visible.last[i]);
    }
  }
  // Of the panel of keys from `key` on.
  bool Any(int64_t key) const { return any_first < key + kPanel && any_last >= key; }
  bool All(int64_t key) const { return all_first <= key && all_last >= key + kPanel - 1; }
};

// to[0, padded) = from[0, size), then zeros; padded is a multiple of 32.
inline void CopyRow(int64_t size, int64_t padded, const BFloat16* from, BFloat16* to,
                    int64_t distance) {
  for (int64_t d = 0; d < padded; d += kPanel, to += distance) {
    const int64_t count = std::min(kPanel, size - d);
    const __mmask32 mask = count < kPanel ? (__mmask32{1} << count) - 1 : ~__mmask32{0};
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from + d));
  }
}

}  // namespace strata::kernels::avx512::amx

#endif  // STRATA_KERNELS_CPU_ATTENTION_AMX_TILE_H_
