// Matrix product of bf16 by AMX tiles, blocked after Goto and van de Geijn: all threads pack some
// columns of op(b); then each packs rows of op(a) for itself, which stay in its L2 cache, and
// multiplies them by all of these columns, of which a panel stays in the L1 cache for some k.
#include <algorithm>

#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_product.h"

namespace strata::kernels {
namespace {

namespace amx = avx512::amx;
using amx::kPanel;

constexpr int64_t kMostRows = 256;                         // of a task
constexpr int64_t kRowsBytes = int64_t{1} << 20;           // of a thread, its packed rows
constexpr int64_t kSumsBytes = 4 * kMostRows * kPanel;     // and its sums of a panel of columns
constexpr int64_t kThreadBytes = kRowsBytes + kSumsBytes;  // the rest is for the packed columns
constexpr int64_t kCachedDepth = 256;                      // of a panel of columns and one of rows
// What is packed at once, in k. Products of 16 bits are rounded once: of more than one such block
// they are summed apart, so many rows at a time.
constexpr int64_t kDepth = 2048, kMostDepthOf16Bits = 4096, kMostRowsApart = 4096;

class TileMatmul final : public MatmulPlan::Implementation {
 public:
  TileMatmul(const MatmulShape& shape, int threads)
      : Implementation(shape),
        depth_(DepthOf(shape)),
        sums_apart_(shape.out_type != NumberType::kF32 && depth_ < shape.k),
        most_rows_(sums_apart_ ? std::min(kMostRowsApart, RoundUp(shape.m, kPanel)) : shape.m),
        shared_bytes_((kOneDnnScratchBytes - kThreadBytes) * threads) {
    const int64_t panel_bytes = 2 * amx::PanelSize(depth_);
    rows_ = std::min(kMostRows, kRowsBytes / panel_bytes * kPanel);
    // Of packed columns and their sums.
    const int64_t shared_panel_bytes = panel_bytes + (sums_apart_ ? 4 * most_rows_ * kPanel : 0);
    columns_ = std::min(shared_bytes_ / shared_panel_bytes * kPanel, RoundUp(shape.n, kPanel));
    // Which task multiplies what changes no sum.
    const int64_t cuts = CeilDiv(2 * threads, CeilDiv(most_rows_, rows_));
    task_columns_ = RoundUp(CeilDiv(columns_, cuts), kPanel);
  }

  MatmulBackend backend() const override { return MatmulBackend::kTiles; }

  void Run(const Context& context, const void* a, const void* b, void* c,
           void* workspace) override {
    for (int64_t m0 = 0; m0 < shape_.m; m0 += most_rows_) {
      for (int64_t n0 = 0; n0 < shape_.n; n0 += columns_) {
        for (int64_t k0 = 0; k0 < shape_.k; k0 += depth_) {
          const Block block{m0,
                            n0,
                            k0,
                            std::min(most_rows_, shape_.m - m0),
                            std::min(columns_, shape_.n - n0),
                            std::min(depth_, shape_.k - k0)};
          PackColumns(context, block, static_cast<const BFloat16*>(b),
                      static_cast<BFloat16*>(workspace));
          MultiplyRows(context, block, static_cast<const BFloat16*>(a), c, workspace);
        }
      }
    }
  }

 private:
  struct Block {
    int64_t m0, n0, k0, m, n, k;
  };

  static int64_t DepthOf(const MatmulShape& shape) {
    const bool whole = shape.out_type != NumberType::kF32 && shape.k <= kMostDepthOf16Bits;
    return whole ? shape.k : std::min(shape.k, kDepth);
  }

  void PackColumns(const Context& context, const Block& block, const BFloat16* b,
                   BFloat16* to) const {
    constexpr int64_t kColumns = 8 * kPanel;  // per task
    context.pool->ParallelFor(CeilDiv(block.n, kColumns), [&](int64_t task, int) {
      const int64_t column = task * kColumns, n0 = block.n0 + column;
      const BFloat16* from =
          shape_.trans_b ? b + n0 * shape_.ldb + block.k0 : b + block.k0 * shape_.ldb + n0;
      amx::PackPanelsOfB(std::min(kColumns, block.n - column), block.k, from, shape_.ldb,
                         shape_.trans_b, to + column / kPanel * amx::PanelSize(block.k));
    });
  }

  // What a task works on.
  struct Task {
    int64_t m0, m, n0, n_end;  // in the block
    BFloat16* rows;
    float* sums;  // [kMostRows, kPanel] of its own, or apart: [most_rows_, columns_] of all
  };

  void MultiplyRows(const Context& context, const Block& block, const BFloat16* a, void* c,
                    void* workspace) const {
    const int64_t row_tasks = CeilDiv(block.m, rows_);
    const int64_t tasks = row_tasks * CeilDiv(block.n, task_columns_);
    context.pool->ParallelFor(tasks, [&](int64_t index, int thread) {
      const amx::TileScope tiles;
      char* own = static_cast<char*>(workspace) + shared_bytes_ + thread * kThreadBytes;
      const int64_t m0 = index % row_tasks * rows_, n0 = index / row_tasks * task_columns_;
      char* apart = static_cast<char*>(workspace) + 2 * columns_ / kPanel * amx::PanelSize(depth_);
      const Task task{m0,
                      std::min(rows_, block.m - m0),
                      n0,
                      std::min(block.n, n0 + task_columns_),
                      reinterpret_cast<BFloat16*>(own),
                      reinterpret_cast<float*>(sums_apart_ ? apart : own + kRowsBytes)};
      PackRows(block, task, a);
      const int64_t size = amx::PanelSize(block.k);
      for (int64_t column = n0; column < task.n_end; column += kPanel) {
        MultiplyPanel(block, task, static_cast<const BFloat16*>(workspace) + column / kPanel * size,
                      column, c);
      }
    });
  }

  void PackRows(const Block& block, const Task& task, const BFloat16* a) const {
    const int64_t m0 = block.m0 + task.m0;
    const BFloat16* from =
        shape_.trans_a ? a + block.k0 * shape_.lda + m0 : a + m0 * shape_.lda + block.k0;
    amx::PackPanelsOfA(task.m, block.k, from, shape_.lda, !shape_.trans_a, task.rows);
  }

  // The column panel at `column` of the block, whose columns begin at `b`, by all rows of the task.
  void MultiplyPanel(const Block& block, const Task& task, const BFloat16* b, int64_t column,
                     void* c) const {
    const int64_t columns = std::min(kPanel, task.n_end - column);
    const bool f32 = shape_.out_type == NumberType::kF32;
    const bool accumulate = shape_.accumulate || (block.k0 > 0 && !sums_apart_);
    const bool begun = block.k0 > 0 && sums_apart_;
    const bool ends = block.k0 + block.k == shape_.k || !sums_apart_;
    const int64_t bytes = f32 ? 4 : 2;
    // The next panel is fetched in as many parts as there are products of this one.
    const int64_t size = amx::PanelSize(block.k);
    const int64_t parts = CeilDiv(task.m, kPanel) * CeilDiv(block.k, kCachedDepth);
    const int64_t lines = CeilDiv(size * 2, 64), each = CeilDiv(lines, parts);
    amx::Ahead ahead{.lines = b + size, .count = column + kPanel < task.n_end ? each : 0};
    for (int64_t k = 0; k < block.k; k += kCachedDepth) {
      const int64_t depth = std::min(kCachedDepth, block.k - k);
      const bool last = ends && k + depth == block.k;
      for (int64_t row = 0; row < task.m; row += kPanel) {
        const BFloat16* from = task.rows + row / kPanel * size + k * kPanel;
        const int64_t rows = std::min(kPanel, task.m - row);
        char* to = static_cast<char*>(c) +
                   bytes * ((block.m0 + task.m0 + row) * shape_.ldc + block.n0 + column);
        float* sums = sums_apart_ ? task.sums + (task.m0 + row) * columns_ + column * kPanel
                                  : task.sums + row * kPanel;
        ahead.rows = last && rows == kPanel ? to : nullptr;
        ahead.row_bytes = bytes * shape_.ldc;
        amx::Multiply(depth, from, b + k * kPanel, sums, begun || k > 0, ahead);
        if (last && f32) {
          amx::WriteSums(sums, rows, columns, accumulate, reinterpret_cast<float*>(to), shape_.ldc);
        } else if (last) {
          amx::WriteSums(sums, rows, columns, accumulate, reinterpret_cast<BFloat16*>(to),
                         shape_.ldc);
        }
        ahead.lines = static_cast<const char*>(ahead.lines) + 64 * each;
      }
    }
  }

  const int64_t depth_;
  const bool sums_apart_;
  const int64_t most_rows_, shared_bytes_;
  int64_t rows_, columns_, task_columns_;
};

}  // namespace

bool SuitsTileMatmul(const MatmulShape& shape) {
  constexpr int64_t kFew = 16;  // below, tiles are mostly empty
  return shape.type == NumberType::kBF16 && shape.m >= kFew && shape.n >= kFew;
}

std::unique_ptr<MatmulPlan::Implementation> MakeTileMatmul(const MatmulShape& shape, int threads) {
  return std::make_unique<TileMatmul>(shape, threads);
}

}  // namespace strata::kernels
