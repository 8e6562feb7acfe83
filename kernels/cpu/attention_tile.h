// Tiles of attention. A query tile holds the rows of all query heads of one key/value head at some
// consecutive positions, position by position (row = position * G + head, G heads per group), so
// that a tile of keys and values is packed once for the whole group. Tiles are padded to whole
// micro kernels; what a product reads as its second factor lies in panels of columns.
#ifndef STRATA_KERNELS_CPU_ATTENTION_TILE_H_
#define STRATA_KERNELS_CPU_ATTENTION_TILE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/micro_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

// The most keys of a key tile, and the distance of rows of scores: a multiple of both the micro
// kernel's rows and columns.
inline constexpr int64_t kKeys = 96;
// Rows whose scores are made together: a panel of the second factor that the first-level cache has
// got is used for all of them.
inline constexpr int64_t kBlockRows = 24;
inline constexpr int64_t kBlockPanels = kBlockRows / kTileRows;

struct QueryTiling {
  int64_t group;      // query heads per key/value head
  int64_t positions;  // per tile
  int64_t rows;       // per tile, padded to whole micro kernels

  // A tile has at most `most` rows unless a single position has more.
  QueryTiling(int64_t heads, int64_t kv_heads, int64_t most)
      : group(heads / kv_heads),
        positions(std::max<int64_t>(1, most / group)),
        rows(RoundUp(group * positions, kTileRows)) {}
};

// Columns of packed rows.
inline int64_t PaddedHeadSize(int64_t head_size) { return RoundUp(head_size, kTileColumns); }

// to[0, padded) = scale * from[0, size), then zeros.
template <typename T>
void PackRow(int64_t size, int64_t padded, float scale, const T* from, float* to) {
  simd::ForEachVec(size, [=](int64_t i, auto lanes) {
    simd::Store(to + i, simd::Mul(lanes.Load(from + i), simd::Set(scale)));
  });
  for (int64_t i = RoundUp(size, simd::kLanes); i < padded; i += simd::kLanes) {
    simd::Store(to + i, simd::Zero());
  }
}

// Brings a row that is read (or added to) soon into the cache: rows lie a whole packed qkv apart,
// too far for the hardware to guess.
template <typename T>
void PrefetchRow(int64_t size, const T* row) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < size; i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(row + i), _MM_HINT_T0);
  }
}

// row[from, to) = 0.
inline void ZeroRow(float* row, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) row[i] = 0;
}

// Hands out parts of a workspace, each aligned to a cache line.
class Carver {
 public:
  explicit Carver(float* from) : next_(from) {}
  float* Take(int64_t count) {
    float* taken = next_;
    next_ += RoundUp(count, 16);
    return taken;
  }
  int64_t FloatsFrom(const float* from) const { return next_ - from; }

 private:
  float* next_;
};

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_ATTENTION_TILE_H_
