// One row, or head, of a root mean square norm.
#ifndef STRATA_KERNELS_CPU_RMS_ROW_H_
#define STRATA_KERNELS_CPU_RMS_ROW_H_

#include <cmath>
#include <cstdint>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

// What is added to weights: -0 changes no number.
inline simd::Vec WeightOffset(bool plus_one) { return simd::Set(plus_one ? 1.0f : -0.0f); }

inline float RmsRstd(const simd::Vec (&squares)[4], int64_t channels, float epsilon) {
  const double mean = simd::Sum(Total(squares)) / static_cast<double>(channels);
  return static_cast<float>(1 / std::sqrt(mean + epsilon));
}

template <typename T>
float RmsRstdOf(int64_t channels, float epsilon, const T* x) {
  simd::Vec squares[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
    const simd::Vec value = lanes.Load(x + i);
    squares[group] = simd::MulAdd(value, value, squares[group]);
  });
  return RmsRstd(squares, channels, epsilon);
}

template <typename T>
void RmsScaleRow(int64_t channels, simd::Vec offset, float rstd, const T* x, const T* w, T* y) {
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const simd::Vec normed = simd::Mul(lanes.Load(x + i), simd::Set(rstd));
    lanes.Store(y + i, simd::Mul(normed, simd::Add(lanes.Load(w + i), offset)));
  });
}

// dx, and with `dw_sum` dw_sum += dy * x * rstd. dx may be dy where it is not accumulated.
template <typename T>
void RmsBackwardRow(int64_t channels, simd::Vec offset, const T* dy, const T* x, const T* w,
                    float rstd, bool accumulate, T* dx, float* dw_sum) {
  using simd::Vec;
  Vec dots[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
    const Vec dy_x = simd::Mul(lanes.Load(dy + i), lanes.Load(x + i));
    const Vec weight = simd::Add(lanes.Load(w + i), offset);
    dots[group] = simd::MulAdd(dy_x, weight, dots[group]);
    if (dw_sum == nullptr) return;
    lanes.Store(dw_sum + i, simd::MulAdd(dy_x, simd::Set(rstd), lanes.Load(dw_sum + i)));
  });
  // dx = rstd * (dy w - x * rstd^2 * mean(dy w x))
  const float mean = simd::Sum(Total(dots)) / static_cast<float>(channels);
  const Vec projection = simd::Set(mean * rstd * rstd * rstd), scale = simd::Set(rstd);
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const Vec weight = simd::Add(lanes.Load(w + i), offset);
    const Vec dy_w = simd::Mul(lanes.Load(dy + i), weight);
    Vec value = simd::NegMulAdd(lanes.Load(x + i), projection, simd::Mul(dy_w, scale));
    if (accumulate) value = simd::Add(value, lanes.Load(dx + i));
    lanes.Store(dx + i, value);
  });
}

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_RMS_ROW_H_
