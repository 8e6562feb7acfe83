#include "kernels/rmsnorm.h"

#include <algorithm>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rms_row.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

using simd::Vec;

template <typename T>
void RmsNormForward(const Context& context, const RmsNormShape& shape, float epsilon, const T* x,
                    const T* w, T* y, float* rstd) {
  const int64_t channels = shape.channels;
  const Vec offset = WeightOffset(shape.plus_one);
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x_row = x + row * channels;
      rstd[row] = RmsRstdOf(channels, epsilon, x_row);
      RmsScaleRow(channels, offset, rstd[row], x_row, w, y + row * channels);
    }
  });
}

template <typename T>
void AddRmsNormForward(const Context& context, const RmsNormShape& shape, float epsilon, const T* x,
                       const T* branch, const T* w, T* sum, T* y, float* rstd) {
  const int64_t channels = shape.channels;
  const Vec offset = WeightOffset(shape.plus_one);
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x_row = x + row * channels;
      const T* branch_row = branch + row * channels;
      T* sum_row = sum + row * channels;
      Vec squares[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
      simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
        const Vec value =
            simd::Rounded<T>(simd::Add(lanes.Load(x_row + i), lanes.Load(branch_row + i)));
        lanes.Store(sum_row + i, value);
        squares[group] = simd::MulAdd(value, value, squares[group]);
      });
      rstd[row] = RmsRstd(squares, channels, epsilon);
      RmsScaleRow(channels, offset, rstd[row], sum_row, w, y + row * channels);
    }
  });
}

template <typename T>
void RmsNormReplay(const Context& context, const RmsNormShape& shape, const T* x, const T* w,
                   const float* rstd, T* y) {
  const int64_t channels = shape.channels;
  const Vec offset = WeightOffset(shape.plus_one);
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RmsScaleRow(channels, offset, rstd[row], x + row * channels, w, y + row * channels);
    }
  });
}

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels) {
  return ColumnSumsBytes(rows, channels);
}

template <typename T>
void RmsNormBackward(const Context& context, const RmsNormShape& shape, const T* dy, const T* x,
                     const T* w, const float* rstd, bool accumulate_dx, T* dx, float* dw,
                     void* workspace) {
  const int64_t channels = shape.channels;
  const Vec offset = WeightOffset(shape.plus_one);
  float* dw_sums = dw == nullptr ? nullptr : static_cast<float*>(workspace);  // [blocks, C]
  ForBlocks(context, shape.rows, kGradientRows, [=](int64_t begin, int64_t end) {
    float* dw_sum = nullptr;
    if (dw_sums != nullptr) {
      dw_sum = dw_sums + begin / kGradientRows * channels;
      std::fill(dw_sum, dw_sum + channels, 0.0f);
    }
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * channels;
      RmsBackwardRow(channels, offset, dy + at, x + at, w, rstd[row], accumulate_dx, dx + at,
                     dw_sum);
    }
  });
  if (dw_sums == nullptr) return;
  CombineBlocks(context, CeilDiv(shape.rows, kGradientRows), channels, channels, dw_sums, dw);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, RmsNormForward, const Context&, const RmsNormShape&, float, const T*, const T*,
              T*, float*)
STRATA_KERNEL(void, AddRmsNormForward, const Context&, const RmsNormShape&, float, const T*,
              const T*, const T*, T*, T*, float*)
STRATA_KERNEL(void, RmsNormReplay, const Context&, const RmsNormShape&, const T*, const T*,
              const float*, T*)
STRATA_KERNEL(void, RmsNormBackward, const Context&, const RmsNormShape&, const T*, const T*,
              const T*, const float*, bool, T*, float*, void*)
STRATA_PLAIN_KERNEL(int64_t, RmsNormBackwardWorkspaceBytes, int64_t, int64_t)

}  // namespace strata::kernels
