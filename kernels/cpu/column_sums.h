// Sums over rows of a gradient, in two steps that do not depend on threads: blocks of rows, each by
// one task into workspace, then the blocks in ascending order.
#ifndef STRATA_KERNELS_CPU_COLUMN_SUMS_H_
#define STRATA_KERNELS_CPU_COLUMN_SUMS_H_

#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

// Rows whose contributions are summed by one task.
inline constexpr int64_t kGradientRows = 32;
// Columns per task when the blocks' contributions are combined.
inline constexpr int64_t kCombineColumns = 64;

// Of the sums of `columns` columns.
inline int64_t ColumnSumsBytes(int64_t rows, int64_t columns) {
  return CeilDiv(rows, kGradientRows) * columns * static_cast<int64_t>(sizeof(float));
}

// into[columns] += the sum over blocks of sums[blocks, stride].
inline void CombineBlocks(const Context& context, int64_t blocks, int64_t columns, int64_t stride,
                          const float* sums, float* into) {
  ForBlocks(context, columns, kCombineColumns, [=](int64_t begin, int64_t end) {
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      simd::Vec sum = simd::Zero();
      for (int64_t block = 0; block < blocks; ++block) {
        sum = simd::Add(sum, lanes.Load(sums + block * stride + begin + i));
      }
      lanes.Store(into + begin + i, simd::Add(lanes.Load(into + begin + i), sum));
    });
  });
}

// Of four accumulators.
inline simd::Vec Total(const simd::Vec (&sums)[4]) {
  return simd::Add(simd::Add(sums[0], sums[1]), simd::Add(sums[2], sums[3]));
}

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_COLUMN_SUMS_H_
