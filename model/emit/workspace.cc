#include "model/emit/workspace.h"

#include <algorithm>

#include "common/units.h"

namespace strata::model {
namespace {

using common::CeilDivide;
using common::RoundUp;

constexpr int64_t kLine = program::kSlotAlignment;
constexpr int64_t kFloat = 4;
// Micro kernel of products: rows and columns of a register tile.
constexpr int64_t kTileRows = 6;
constexpr int64_t kTileColumns = 16;
// Blocks that a product packs at once.
constexpr int64_t kBlockRows = 2112;
constexpr int64_t kBlockColumns = 2048;
constexpr int64_t kBlockDepth = 256;
constexpr int64_t kLibraryScratchBytes = 4 * common::kMiB;
// Attention's tiles at most; kernels take somewhat fewer query rows.
constexpr int64_t kKeys = 96;
constexpr int64_t kForwardQueryRows = 256;
constexpr int64_t kBackwardQueryRows = 128;
constexpr int64_t kLanes = 8;
// Rows of one partial gradient of norm weights.
constexpr int64_t kNormRows = 32;

// Sizes of attention's tiles; padded as kernels pad them.
struct Tiles {
  int64_t rows;   // of queries
  int64_t width;  // of a head

  Tiles(const AttentionShape& shape, int64_t query_rows)
      : rows(RoundUp(std::max(query_rows, shape.heads / shape.kv_heads), kTileRows)),
        width(RoundUp(shape.head_size, kTileColumns)) {}
};

// A part of a workspace, of whole cache lines.
int64_t Part(int64_t floats) { return RoundUp(floats * kFloat, kLine); }

int64_t ForwardBytesPerThread(const AttentionShape& shape) {
  const Tiles tiles(shape, kForwardQueryRows);
  return 2 * Part(kKeys * tiles.width) + 2 * Part(tiles.rows * tiles.width) +
         2 * Part(tiles.rows + kLanes) + Part(kTileRows * kKeys);
}

}  // namespace

int64_t MatMulWorkspaceBytes(const MatMulShape& shape, int64_t threads) {
  const int64_t m = RoundUp(std::min(shape.m, kBlockRows), kTileRows);
  const int64_t n = RoundUp(std::min(shape.n, kBlockColumns), kTileColumns);
  const int64_t k = RoundUp(std::min(shape.k, kBlockDepth), kLanes);
  return std::max(Part((m + n) * k), kLibraryScratchBytes * threads);
}

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels) {
  return Part(CeilDivide(rows, kNormRows) * channels);
}

int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int64_t threads) {
  return ForwardBytesPerThread(shape) * threads;
}

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int64_t threads) {
  const Tiles tiles(shape, kBackwardQueryRows);
  const int64_t per_thread = 5 * Part(kKeys * tiles.width) + 2 * Part(tiles.rows * tiles.width) +
                             2 * Part(tiles.rows * kKeys) + Part(kTileRows * tiles.width);
  return Part(shape.rows() * shape.heads) + per_thread * threads;
}

int64_t AttentionDecodeWorkspaceBytes(const AttentionShape& shape, int64_t threads) {
  return ForwardBytesPerThread(shape) * threads;
}

int64_t CrossEntropyWorkspaceBytes(int64_t rows) { return RoundUp(rows * 8, kLine); }

int64_t ReduceScatterScratchBytes(int64_t bytes, int64_t members) {
  return members * RoundUp(bytes / members, kLine);
}

}  // namespace strata::model
