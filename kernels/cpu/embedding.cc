#include "kernels/embedding.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

// Columns per task of the backward: two cache lines, so that no line has two writers when the table
// is aligned.
constexpr int64_t kColumns = 32;

// The table's row of a token; negative: it has none.
int64_t RowOf(const EmbeddingShape& shape, int32_t token) {
  const int64_t row = token - shape.first;
  return row < shape.count ? row : -1;
}

// to = from * scale.
template <typename T>
void ScaledRow(int64_t channels, float scale, const T* from, T* to) {
  if (scale == 1) {
    std::memcpy(to, from, channels * sizeof(T));
    return;
  }
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    lanes.Store(to + i, simd::Mul(lanes.Load(from + i), simd::Set(scale)));
  });
}

// to += from * scale; to and from may be of different types.
template <typename From, typename To>
void AddScaled(int64_t count, float scale, const From* from, To* to) {
  simd::ForEachVec(count, [=](int64_t i, auto lanes) {
    lanes.Store(to + i, simd::MulAdd(lanes.Load(from + i), simd::Set(scale), lanes.Load(to + i)));
  });
}

int64_t PositionOf(const PositionsShape& shape, const int32_t* positions, int64_t row) {
  return positions != nullptr ? positions[row] : shape.start + (shape.first + row) % shape.sequence;
}

}  // namespace

template <typename T>
void EmbeddingForward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                      const T* table, T* y) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t row = RowOf(shape, tokens[n]);
      T* const to = y + n * channels;
      if (row >= 0) {
        ScaledRow(channels, shape.scale, table + row * channels, to);
      } else {
        std::fill(to, to + channels, T{});
      }
    }
  });
}

template <typename T>
void EmbeddingBackward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                       const T* dy, float* dtable) {
  const int64_t channels = shape.channels;
  // A task owns columns, so rows that name the same token are added in order.
  ForBlocks(context, channels, kColumns, [=](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < shape.rows; ++n) {
      const int64_t row = RowOf(shape, tokens[n]);
      if (row < 0) continue;
      AddScaled(end - begin, shape.scale, dy + n * channels + begin,
                dtable + row * channels + begin);
    }
  });
}

template <typename T>
void AddPositions(const Context& context, const PositionsShape& shape, const T* table,
                  const int32_t* positions, T* y) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      AddScaled(channels, 1, table + PositionOf(shape, positions, n) * channels, y + n * channels);
    }
  });
}

template <typename T>
void PositionsGradient(const Context& context, const PositionsShape& shape, const T* dy,
                       const int32_t* positions, float* dtable) {
  const int64_t channels = shape.channels;
  ForBlocks(context, channels, kColumns, [=](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < shape.rows; ++n) {
      AddScaled(end - begin, 1, dy + n * channels + begin,
                dtable + PositionOf(shape, positions, n) * channels + begin);
    }
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, EmbeddingForward, const Context&, const EmbeddingShape&, const int32_t*,
              const T*, T*)
STRATA_KERNEL(void, EmbeddingBackward, const Context&, const EmbeddingShape&, const int32_t*,
              const T*, float*)
STRATA_KERNEL(void, AddPositions, const Context&, const PositionsShape&, const T*, const int32_t*,
              T*)
STRATA_KERNEL(void, PositionsGradient, const Context&, const PositionsShape&, const T*,
              const int32_t*, float*)

}  // namespace strata::kernels
