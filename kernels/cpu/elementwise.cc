#include "kernels/elementwise.h"

#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/softcap.h"

namespace strata::kernels::STRATA_ISA {
namespace {

constexpr int64_t kSumBlock = 4096;
constexpr int64_t kSumBlocksPerTask = 4;

template <typename T>
double BlockSumSquares(int64_t count, const T* x) {
  __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                     _mm256_setzero_pd()};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const simd::Eight eight = simd::FullEight{}.Load(x + i + 8 * pair);
      const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(eight));
      const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1));
      sums[2 * pair] = _mm256_fmadd_pd(low, low, sums[2 * pair]);
      sums[2 * pair + 1] = _mm256_fmadd_pd(high, high, sums[2 * pair + 1]);
    }
  }
  double rest = 0;
  for (; i < count; ++i) rest += static_cast<double>(ToFloat(x[i])) * ToFloat(x[i]);
  return simd::Sum(
             _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3]))) +
         rest;
}

}  // namespace

template <typename T>
void Add(const Context& context, int64_t count, const T* src, T* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    const T* from = src + begin;
    T* to = dst + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, simd::Add(lanes.Load(to + i), lanes.Load(from + i)));
    });
  });
}

template <typename T>
void Copy(const Context& context, int64_t count, const T* src, T* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    std::memcpy(dst + begin, src + begin, (end - begin) * sizeof(T));
  });
}

template <typename T>
void MoveBlocks(const Context& context, const BlockMove& move, bool adds, const T* from, T* to) {
  // Blocks stay in order within a row's task.
  ForBlocks(context, move.rows, RowsPerTask(move.width * move.blocks),
            [&](int64_t begin, int64_t end) {
              for (int64_t b = 0; b < move.blocks; ++b) {
                for (int64_t r = begin; r < end; ++r) {
                  const T* const row = from + b * move.from_block + r * move.from_row;
                  T* const into = to + b * move.to_block + r * move.to_row;
                  if (!adds) {
                    std::memcpy(into, row, move.width * sizeof(T));
                    continue;
                  }
                  simd::ForEachVec(move.width, [=](int64_t i, auto lanes) {
                    lanes.Store(into + i, simd::Add(lanes.Load(into + i), lanes.Load(row + i)));
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

template <typename T>
void Scale(const Context& context, int64_t count, float factor, T* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    T* to = dst + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, simd::Mul(lanes.Load(to + i), simd::Set(factor)));
    });
  });
}

template <typename T>
void Softcap(const Context& context, int64_t count, float cap, T* x) {
  const simd::Cap by(cap);
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    T* to = x + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, by.Value(lanes.Load(to + i)));
    });
  });
}

int64_t SumSquaresWorkspaceBytes(int64_t count) {
  return CeilDiv(count, kSumBlock) * static_cast<int64_t>(sizeof(double));
}

template <typename T>
double SumSquares(const Context& context, int64_t count, const T* x, void* workspace) {
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

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, Add, const Context&, int64_t, const T*, T*)
STRATA_KERNEL(void, Copy, const Context&, int64_t, const T*, T*)
STRATA_KERNEL(void, MoveBlocks, const Context&, const BlockMove&, bool, const T*, T*)
STRATA_KERNEL(void, Scale, const Context&, int64_t, float, T*)
STRATA_KERNEL(void, Softcap, const Context&, int64_t, float, T*)
STRATA_KERNEL(double, SumSquares, const Context&, int64_t, const T*, void*)
STRATA_PLAIN_KERNEL(void, Fill, const Context&, int64_t, float, float*)
STRATA_PLAIN_KERNEL(void, Zero, const Context&, int64_t, float*)
STRATA_PLAIN_KERNEL(int64_t, SumSquaresWorkspaceBytes, int64_t)

}  // namespace strata::kernels
