#include "kernels/embedding.h"

#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

// Columns per task of the backward: two cache lines, so that no line has two writers when the table
// is aligned.
constexpr int64_t kColumns = 32;

// The table's row of a token; negative: it has none.
int64_t RowOf(const EmbeddingShape& shape, int32_t token) {
  const int64_t row = token - shape.first;
  return row < shape.count ? row : -1;
}

}  // namespace

void EmbeddingForward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                      const float* table, float* y) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t row = RowOf(shape, tokens[n]);
      float* const to = y + n * channels;
      if (row >= 0) {
        std::memcpy(to, table + row * channels, channels * sizeof(float));
      } else {
        std::memset(to, 0, channels * sizeof(float));
      }
    }
  });
}

void EmbeddingBackward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                       const float* dy, float* dtable) {
  const int64_t channels = shape.channels;
  // A task owns columns, so rows that name the same token are added in order.
  ForBlocks(context, channels, kColumns, [=](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < shape.rows; ++n) {
      const int64_t row = RowOf(shape, tokens[n]);
      if (row < 0) continue;
      const float* from = dy + n * channels + begin;
      float* to = dtable + row * channels + begin;
      simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
        lanes.Store(to + i, _mm256_add_ps(lanes.Load(to + i), lanes.Load(from + i)));
      });
    }
  });
}

}  // namespace strata::kernels
