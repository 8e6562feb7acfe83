#include "kernels/bias.h"

#include <algorithm>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

using simd::Vec;

template <typename T>
void AddBias(const Context& context, int64_t rows, int64_t width, const T* b, T* y) {
  ForBlocks(context, rows, RowsPerTask(width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const to = y + row * width;
      simd::ForEachVec(width, [=](int64_t i, auto lanes) {
        lanes.Store(to + i, simd::Add(lanes.Load(to + i), lanes.Load(b + i)));
      });
    }
  });
}

int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width) {
  return ColumnSumsBytes(rows, width);
}

template <typename T>
void BiasGradient(const Context& context, int64_t rows, int64_t width, const T* dy, float* db,
                  void* workspace) {
  float* all_sums = static_cast<float*>(workspace);  // [blocks, W]
  ForBlocks(context, rows, kGradientRows, [=](int64_t begin, int64_t end) {
    float* sums = all_sums + begin / kGradientRows * width;
    std::fill(sums, sums + width, 0.0f);
    for (int64_t row = begin; row < end; ++row) {
      const T* from = dy + row * width;
      simd::ForEachVec(width, [=](int64_t i, auto lanes) {
        lanes.Store(sums + i, simd::Add(lanes.Load(sums + i), lanes.Load(from + i)));
      });
    }
  });
  CombineBlocks(context, CeilDiv(rows, kGradientRows), width, width, all_sums, db);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, AddBias, const Context&, int64_t, int64_t, const T*, T*)
STRATA_KERNEL(void, BiasGradient, const Context&, int64_t, int64_t, const T*, float*, void*)
STRATA_PLAIN_KERNEL(int64_t, BiasGradientWorkspaceBytes, int64_t, int64_t)

}  // namespace strata::kernels
