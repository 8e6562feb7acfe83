#include "kernels/elementwise.h"

#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

constexpr int64_t kSumBlock = 4096;
constexpr int64_t kSumBlocksPerTask = 4;

double BlockSumSquares(int64_t count, const float* x) {
  __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                     _mm256_setzero_pd()};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * part));
      sums[part] = _mm256_fmadd_pd(v, v, sums[part]);
    }
  }
  double rest = 0;
  for (; i < count; ++i) rest += static_cast<double>(x[i]) * x[i];
  return simd::Sum(
             _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3]))) +
         rest;
}

}  // namespace

void Add(const Context& context, int64_t count, const float* src, float* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    const float* from = src + begin;
    float* to = dst + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, _mm256_add_ps(lanes.Load(to + i), lanes.Load(from + i)));
    });
  });
}

void Copy(const Context& context, int64_t count, const float* src, float* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    std::memcpy(dst + begin, src + begin, (end - begin) * sizeof(float));
  });
}

void MoveBlocks(const Context& context, const BlockMove& move, bool adds, const float* from,
                float* to) {
  // Blocks stay in order within a row's task.
  ForBlocks(context, move.rows, RowsPerTask(move.width * move.blocks),
            [&](int64_t begin, int64_t end) {
              for (int64_t b = 0; b < move.blocks; ++b) {
                for (int64_t r = begin; r < end; ++r) {
                  const float* const row = from + b * move.from_block + r * move.from_row;
                  float* const into = to + b * move.to_block + r * move.to_row;
                  if (!adds) {
                    std::memcpy(into, row, move.width * sizeof(float));
                    continue;
                  }
                  simd::ForEachVec(move.width, [=](int64_t i, auto lanes) {
                    lanes.Store(into + i, _mm256_add_ps(lanes.Load(into + i), lanes.Load(row + i)));
                  });
                }
              }
            });
}

void Fill(const Context& context, int64_t count, float value, float* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    float* to = dst + begin;
    simd::ForEachVec(end - begin,
                     [=](int64_t i, auto lanes) { lanes.Store(to + i, simd::Set(value)); });
  });
}

void Zero(const Context& context, int64_t count, float* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    std::memset(dst + begin, 0, (end - begin) * sizeof(float));
  });
}

void Scale(const Context& context, int64_t count, float factor, float* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    float* to = dst + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, _mm256_mul_ps(lanes.Load(to + i), simd::Set(factor)));
    });
  });
}

int64_t SumSquaresWorkspaceBytes(int64_t count) {
  return CeilDiv(count, kSumBlock) * static_cast<int64_t>(sizeof(double));
}

double SumSquares(const Context& context, int64_t count, const float* x, void* workspace) {
  double* sums = static_cast<double*>(workspace);
  const int64_t blocks = CeilDiv(count, kSumBlock);
  ForBlocks(context, blocks, kSumBlocksPerTask, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kSumBlock;
      sums[block] = BlockSumSquares(std::min(kSumBlock, count - first), x + first);
    }
  });
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += sums[block];
  return sum;
}

}  // namespace strata::kernels
