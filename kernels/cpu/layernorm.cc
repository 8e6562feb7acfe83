#include "kernels/layernorm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

float MeanOf(const Vec (&sums)[4], int64_t channels) {
  return static_cast<float>(simd::Sum(Total(sums)) / static_cast<double>(channels));
}

template <typename T>
float RstdAround(float mean, int64_t channels, float epsilon, const T* x) {
  Vec squares[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
    // Lanes beyond the end hold the mean.
    const Vec value = simd::Sub(lanes.LoadOr(x + i, simd::Set(mean)), simd::Set(mean));
    squares[group] = simd::MulAdd(value, value, squares[group]);
  });
  const double variance = simd::Sum(Total(squares)) / static_cast<double>(channels);
  return static_cast<float>(1 / std::sqrt(variance + epsilon));
}

template <typename T>
void NormRow(int64_t channels, const float* statistics, const T* x, const T* w, const T* b, T* y) {
  const Vec mean = simd::Set(statistics[0]), rstd = simd::Set(statistics[1]);
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const Vec normed = simd::Mul(simd::Sub(lanes.Load(x + i), mean), rstd);
    lanes.Store(y + i, simd::MulAdd(normed, lanes.Load(w + i), lanes.Load(b + i)));
  });
}

// One row of the backward: dx, and with `sums` sums[0, C) += dy * n, sums[C, 2 C) += dy.
template <typename T>
void BackwardRow(int64_t channels, const T* dy, const T* x, const T* w, const float* statistics,
                 bool accumulate, T* dx, float* sums) {
  const Vec mean = simd::Set(statistics[0]), rstd = simd::Set(statistics[1]);
  Vec plain[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  Vec dots[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
    const Vec d = lanes.Load(dy + i);
    const Vec normed = simd::Mul(simd::Sub(lanes.Load(x + i), mean), rstd);
    const Vec d_w = simd::Mul(d, lanes.Load(w + i));
    plain[group] = simd::Add(plain[group], d_w);
    dots[group] = simd::MulAdd(d_w, normed, dots[group]);
    if (sums == nullptr) return;
    float* db_sums = sums + channels;
    lanes.Store(sums + i, simd::MulAdd(d, normed, lanes.Load(sums + i)));
    lanes.Store(db_sums + i, simd::Add(d, lanes.Load(db_sums + i)));
  });
  // dx = rstd * (dy w - mean(dy w) - n * mean(dy w n))
  const auto count = static_cast<float>(channels);
  const Vec shift = simd::Set(simd::Sum(Total(plain)) / count);
  const Vec projection = simd::Set(simd::Sum(Total(dots)) / count);
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const Vec normed = simd::Mul(simd::Sub(lanes.Load(x + i), mean), rstd);
    const Vec d_w = simd::MulSub(lanes.Load(dy + i), lanes.Load(w + i), shift);
    Vec value = simd::Mul(simd::NegMulAdd(normed, projection, d_w), rstd);
    if (accumulate) value = simd::Add(value, lanes.Load(dx + i));
    lanes.Store(dx + i, value);
  });
}

}  // namespace

template <typename T>
void LayerNormForward(const Context& context, const LayerNormShape& shape, float epsilon,
                      const T* x, const T* w, const T* b, T* y, float* statistics) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x_row = x + row * channels;
      float* const of = statistics + row * 2;
      Vec sums[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
      simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
        sums[group] = simd::Add(sums[group], lanes.Load(x_row + i));
      });
      of[0] = MeanOf(sums, channels);
      of[1] = RstdAround(of[0], channels, epsilon, x_row);
      NormRow(channels, of, x_row, w, b, y + row * channels);
    }
  });
}

template <typename T>
void AddLayerNormForward(const Context& context, const LayerNormShape& shape, float epsilon,
                         const T* x, const T* branch, const T* w, const T* b, T* sum, T* y,
                         float* statistics) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x_row = x + row * channels;
      const T* branch_row = branch + row * channels;
      T* sum_row = sum + row * channels;
      float* const of = statistics + row * 2;
      Vec sums[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
      simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
        const Vec value =
            simd::Rounded<T>(simd::Add(lanes.Load(x_row + i), lanes.Load(branch_row + i)));
        lanes.Store(sum_row + i, value);
        sums[group] = simd::Add(sums[group], value);
      });
      of[0] = MeanOf(sums, channels);
      of[1] = RstdAround(of[0], channels, epsilon, sum_row);
      NormRow(channels, of, sum_row, w, b, y + row * channels);
    }
  });
}

template <typename T>
void LayerNormReplay(const Context& context, const LayerNormShape& shape, const T* x, const T* w,
                     const T* b, const float* statistics, T* y) {
  const int64_t channels = shape.channels;
  ForBlocks(context, shape.rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      NormRow(channels, statistics + row * 2, x + row * channels, w, b, y + row * channels);
    }
  });
}

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormShape& shape) {
  return ColumnSumsBytes(shape.rows, 2 * shape.channels);
}

template <typename T>
void LayerNormBackward(const Context& context, const LayerNormShape& shape, const T* dy, const T* x,
                       const T* w, const float* statistics, bool accumulate_dx, T* dx, float* dw,
                       float* db, void* workspace) {
  const int64_t channels = shape.channels;
  float* all_sums = dw == nullptr ? nullptr : static_cast<float*>(workspace);  // [blocks, 2, C]
  ForBlocks(context, shape.rows, kGradientRows, [=](int64_t begin, int64_t end) {
    float* sums = nullptr;
    if (all_sums != nullptr) {
      sums = all_sums + begin / kGradientRows * 2 * channels;
      std::fill(sums, sums + 2 * channels, 0.0f);
    }
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * channels;
      BackwardRow(channels, dy + at, x + at, w, statistics + row * 2, accumulate_dx, dx + at, sums);
    }
  });
  if (all_sums == nullptr) return;
  const int64_t blocks = CeilDiv(shape.rows, kGradientRows);
  CombineBlocks(context, blocks, channels, 2 * channels, all_sums, dw);
  CombineBlocks(context, blocks, channels, 2 * channels, all_sums + channels, db);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, LayerNormForward, const Context&, const LayerNormShape&, float, const T*,
              const T*, const T*, T*, float*)
STRATA_KERNEL(void, AddLayerNormForward, const Context&, const LayerNormShape&, float, const T*,
              const T*, const T*, const T*, T*, T*, float*)
STRATA_KERNEL(void, LayerNormReplay, const Context&, const LayerNormShape&, const T*, const T*,
              const T*, const float*, T*)
STRATA_KERNEL(void, LayerNormBackward, const Context&, const LayerNormShape&, const T*, const T*,
              const T*, const float*, bool, T*, float*, float*, void*)
STRATA_PLAIN_KERNEL(int64_t, LayerNormBackwardWorkspaceBytes, const LayerNormShape&)

}  // namespace strata::kernels
