// Our own matrix product: blocks of a and b are packed into panels that the micro kernel reads
// sequentially. Blocks of K follow each other in ascending order, and inside one the micro kernel
// adds in ascending k, so each element of c is one fixed sequence of operations. A c of 16 bits is
// summed in f32 before it is rounded.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/micro_kernel.h"
#include "kernels/cpu/packing.h"
#include "kernels/cpu/parallel.h"

namespace strata::kernels::STRATA_ISA {
namespace {

// Blocks packed at once: a panel of b (kTileColumns x 256 floats) stays in the first-level cache,
// the rows of a that a task uses in the second, both packed blocks (about 2 MiB each) in the third.
constexpr int64_t kBlockK = 256;
constexpr int64_t kBlockM = 2112;
constexpr int64_t kBlockN = 2048;
// Rows and columns of c per task, for large and for small c.
constexpr int64_t kTaskRows = 96, kTaskColumns = 256;
constexpr int64_t kSmallTaskRows = 48, kSmallTaskColumns = 64;
// With fewer large tasks than this, threads would wait for the last one too long.
constexpr int64_t kEnoughTasks = 48;

// Equal blocks of at most `most`, each a multiple of `unit`.
int64_t BlockSize(int64_t size, int64_t most, int64_t unit) {
  return RoundUp(CeilDiv(size, CeilDiv(size, most)), unit);
}

struct Blocks {
  int64_t m, n, k;
};

// True when blocks of c are summed apart: over several blocks of K, and not in c itself.
bool SumsApart(const MatmulShape& shape) {
  return shape.out_type != NumberType::kF32 && shape.k > kBlockK;
}

Blocks BlocksOf(const MatmulShape& shape) {
  const int64_t part = SumsApart(shape) ? 2 : 1;  // the sums take room too
  return {BlockSize(shape.m, kBlockM / part, kTileRows),
          BlockSize(shape.n, kBlockN / part, kTileColumns), BlockSize(shape.k, kBlockK, 8)};
}

template <typename In, typename Out>
class OwnMatmul final : public MatmulPlan::Implementation {
 public:
  explicit OwnMatmul(const MatmulShape& shape)
      : MatmulPlan::Implementation(shape), blocks_(BlocksOf(shape)) {
    const int64_t tasks = CeilDiv(std::min(blocks_.m, shape.m), kTaskRows) *
                          CeilDiv(std::min(blocks_.n, shape.n), kTaskColumns);
    task_rows_ = tasks >= kEnoughTasks ? kTaskRows : kSmallTaskRows;
    task_columns_ = tasks >= kEnoughTasks ? kTaskColumns : kSmallTaskColumns;
  }

  MatmulBackend backend() const override { return MatmulBackend::kOwn; }

  void Run(const Context& context, const void* from_a, const void* from_b, void* to,
           void* workspace) override {
    const In *a = static_cast<const In*>(from_a), *b = static_cast<const In*>(from_b);
    Out* c = static_cast<Out*>(to);
    float* packed_a = static_cast<float*>(workspace);
    float* packed_b = packed_a + blocks_.m * blocks_.k;
    float* sums = packed_b + blocks_.n * blocks_.k;
    for (int64_t m0 = 0; m0 < shape_.m; m0 += blocks_.m) {
      for (int64_t n0 = 0; n0 < shape_.n; n0 += blocks_.n) {
        for (int64_t k0 = 0; k0 < shape_.k; k0 += blocks_.k) {
          const Block block{m0,
                            n0,
                            k0,
                            std::min(blocks_.m, shape_.m - m0),
                            std::min(blocks_.n, shape_.n - n0),
                            std::min(blocks_.k, shape_.k - k0)};
          Pack(context, block, a, b, packed_a, packed_b);
          Multiply(context, block, packed_a, packed_b, sums, c);
        }
      }
    }
  }

 private:
  struct Block {
    int64_t m0, n0, k0, m, n, k;
  };

  void Pack(const Context& context, const Block& block, const In* a, const In* b, float* packed_a,
            float* packed_b) const {
    constexpr int64_t kRows = 96, kColumns = 128;  // per task
    const int64_t a_tasks = CeilDiv(block.m, kRows);
    const int64_t b_tasks = CeilDiv(block.n, kColumns);
    // a is packed per (m, k) block and b per (n, k): repeated for each block of the third
    // dimension.
    context.pool->ParallelFor(a_tasks + b_tasks, [&](int64_t task, int) {
      if (task < a_tasks) {
        const int64_t row = task * kRows;
        const int64_t m0 = block.m0 + row;
        const In* from =
            shape_.trans_a ? a + block.k0 * shape_.lda + m0 : a + m0 * shape_.lda + block.k0;
        PackA(std::min(kRows, block.m - row), block.k, from, shape_.lda, shape_.trans_a,
              packed_a + row * block.k);
      } else {
        const int64_t column = (task - a_tasks) * kColumns;
        const int64_t n0 = block.n0 + column;
        const In* from =
            shape_.trans_b ? b + n0 * shape_.ldb + block.k0 : b + block.k0 * shape_.ldb + n0;
        PackB(std::min(kColumns, block.n - column), block.k, from, shape_.ldb, shape_.trans_b,
              packed_b + column * block.k);
      }
    });
  }

  void Multiply(const Context& context, const Block& block, const float* packed_a,
                const float* packed_b, float* sums, Out* c) const {
    const int64_t row_tasks = CeilDiv(block.m, task_rows_);
    const int64_t column_tasks = CeilDiv(block.n, task_columns_);
    // Neighbouring tasks share columns: their part of b is then in the cache already.
    context.pool->ParallelFor(row_tasks * column_tasks, [&](int64_t task, int) {
      const int64_t row_begin = task % row_tasks * task_rows_;
      const int64_t row_end = std::min(block.m, row_begin + task_rows_);
      const int64_t column_begin = task / row_tasks * task_columns_;
      const int64_t column_end = std::min(block.n, column_begin + task_columns_);
      for (int64_t column = column_begin; column < column_end; column += kTileColumns) {
        for (int64_t row = row_begin; row < row_end; row += kTileRows) {
          const TilePlace place{.rows = std::min(kTileRows, row_end - row),
                                .columns = std::min(kTileColumns, column_end - column),
                                .sums = sums + row * blocks_.n + column * kTileRows};
          Tile(block, packed_a + row * block.k, packed_b + column * block.k, place,
               c + (block.m0 + row) * shape_.ldc + block.n0 + column);
        }
      }
    });
  }

  struct TilePlace {
    int64_t rows, columns;
    float* sums;  // [kTileRows, kTileColumns], of a product that sums apart
  };

  void Tile(const Block& block, const float* a, const float* b, const TilePlace& place,
            Out* c) const {
    constexpr int64_t kLine = 64 / sizeof(Out);
    for (int64_t row = 0; row < place.rows; ++row) {
      for (int64_t i = 0; i < kTileColumns; i += kLine) {
        _mm_prefetch(reinterpret_cast<const char*>(c + row * shape_.ldc + i), _MM_HINT_T0);
      }
    }
    alignas(64) float tile[kTileRows * kTileColumns];
    if constexpr (std::is_same_v<Out, float>) {
      const bool accumulate = shape_.accumulate || block.k0 > 0;
      if (place.rows == kTileRows && place.columns == kTileColumns) {
        MicroKernel(block.k, a, 1, kTileRows, b, kTileColumns, c, shape_.ldc, accumulate);
        return;
      }
      MicroKernel(block.k, a, 1, kTileRows, b, kTileColumns, tile, kTileColumns, false);
      WriteTile(tile, place, accumulate, c);
    } else {
      float* sums = SumsApart(shape_) ? place.sums : tile;
      MicroKernel(block.k, a, 1, kTileRows, b, kTileColumns, sums, kTileColumns, block.k0 > 0);
      if (block.k0 + block.k == shape_.k) WriteTile(sums, place, shape_.accumulate, c);
    }
  }

  void WriteTile(const float* tile, const TilePlace& place, bool accumulate, Out* c) const {
    for (int64_t row = 0; row < place.rows; ++row) {
      const float* from = tile + row * kTileColumns;
      Out* to = c + row * shape_.ldc;
      simd::ForEachVec(place.columns, [=](int64_t j, auto lanes) {
        const simd::Vec value = lanes.Load(from + j);
        lanes.Store(to + j, accumulate ? simd::Add(value, lanes.Load(to + j)) : value);
      });
    }
  }

  const Blocks blocks_;
  int64_t task_rows_;
  int64_t task_columns_;
};

}  // namespace

int64_t OwnMatmulWorkspaceBytes(const MatmulShape& shape) {
  const Blocks blocks = BlocksOf(shape);
  const int64_t sums = SumsApart(shape) ? blocks.m * blocks.n : 0;
  return RoundUp(((blocks.m + blocks.n) * blocks.k + sums) * static_cast<int64_t>(sizeof(float)),
                 kWorkspaceAlignment);
}

std::unique_ptr<MatmulPlan::Implementation> MakeOwnMatmul(const MatmulShape& shape) {
  return MakeTyped<OwnMatmul>(shape);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(int64_t, OwnMatmulWorkspaceBytes, const MatmulShape&)
STRATA_PLAIN_KERNEL(std::unique_ptr<MatmulPlan::Implementation>, MakeOwnMatmul, const MatmulShape&)

}  // namespace strata::kernels
