#include "kernels/embedding.h"

#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

// Columns per task of the backward: two cache lines, so that no line has two writers when the table
// is aligned.
constexpr int64_t kColumns = 32;

}  // namespace

void EmbeddingForward(const Context& context, int64_t rows, int64_t channels, const int32_t* tokens,
                      const float* table, float* y) {
  ForBlocks(context, rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(y + row * channels, table + tokens[row] * channels, channels * sizeof(float));
    }
  });
}

void EmbeddingBackward(const Context& context, int64_t rows, int64_t channels,
                       const int32_t* tokens, const float* dy, float* dtable) {
  // A task owns columns, so rows that name the same token are added in order.
  ForBlocks(context, channels, kColumns, [=](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = dy + row * channels + begin;
      float* to = dtable + tokens[row] * channels + begin;
      simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
        lanes.Store(to + i, _mm256_add_ps(lanes.Load(to + i), lanes.Load(from + i)));
      });
    }
  });
}

}  // namespace strata::kernels
