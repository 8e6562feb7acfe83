#include "kernels/rmsnorm.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::Vec;

// Rows whose contributions to dw are summed by one task.
constexpr int64_t kGradientRows = 32;
// Columns per task when the blocks' contributions are combined.
constexpr int64_t kCombineColumns = 64;

Vec Total(const Vec (&sums)[4]) {
  return _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
}

float Rstd(const Vec (&squares)[4], int64_t channels, float epsilon) {
  const double mean = simd::Sum(Total(squares)) / static_cast<double>(channels);
  return static_cast<float>(1 / std::sqrt(mean + epsilon));
}

void ScaleRow(int64_t channels, float rstd, const float* x, const float* w, float* y) {
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const Vec normed = _mm256_mul_ps(lanes.Load(x + i), simd::Set(rstd));
    lanes.Store(y + i, _mm256_mul_ps(normed, lanes.Load(w + i)));
  });
}

// One row of the backward: dx, and dw_sum += dy * x * rstd.
void BackwardRow(int64_t channels, const float* dy, const float* x, const float* w, float rstd,
                 bool accumulate, float* dx, float* dw_sum) {
  Vec dots[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
    const Vec dy_x = _mm256_mul_ps(lanes.Load(dy + i), lanes.Load(x + i));
    dots[group] = _mm256_fmadd_ps(dy_x, lanes.Load(w + i), dots[group]);
    lanes.Store(dw_sum + i, _mm256_fmadd_ps(dy_x, simd::Set(rstd), lanes.Load(dw_sum + i)));
  });
  // dx = rstd * (dy w - x * rstd^2 * mean(dy w x))
  const float mean = simd::Sum(Total(dots)) / static_cast<float>(channels);
  const Vec projection = simd::Set(mean * rstd * rstd * rstd), scale = simd::Set(rstd);
  simd::ForEachVec(channels, [=](int64_t i, auto lanes) {
    const Vec dy_w = _mm256_mul_ps(lanes.Load(dy + i), lanes.Load(w + i));
    Vec value = _mm256_fnmadd_ps(lanes.Load(x + i), projection, _mm256_mul_ps(dy_w, scale));
    if (accumulate) value = _mm256_add_ps(value, lanes.Load(dx + i));
    lanes.Store(dx + i, value);
  });
}

}  // namespace

void RmsNormForward(const Context& context, int64_t rows, int64_t channels, float epsilon,
                    const float* x, const float* w, float* y, float* rstd) {
  ForBlocks(context, rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x_row = x + row * channels;
      Vec squares[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
      simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
        const Vec value = lanes.Load(x_row + i);
        squares[group] = _mm256_fmadd_ps(value, value, squares[group]);
      });
      rstd[row] = Rstd(squares, channels, epsilon);
      ScaleRow(channels, rstd[row], x_row, w, y + row * channels);
    }
  });
}

void AddRmsNormForward(const Context& context, int64_t rows, int64_t channels, float epsilon,
                       const float* x, const float* branch, const float* w, float* sum, float* y,
                       float* rstd) {
  ForBlocks(context, rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x_row = x + row * channels;
      const float* branch_row = branch + row * channels;
      float* sum_row = sum + row * channels;
      Vec squares[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
      simd::ForEachVec4(channels, [&](int64_t i, int group, auto lanes) {
        const Vec value = _mm256_add_ps(lanes.Load(x_row + i), lanes.Load(branch_row + i));
        lanes.Store(sum_row + i, value);
        squares[group] = _mm256_fmadd_ps(value, value, squares[group]);
      });
      rstd[row] = Rstd(squares, channels, epsilon);
      ScaleRow(channels, rstd[row], sum_row, w, y + row * channels);
    }
  });
}

void RmsNormReplay(const Context& context, int64_t rows, int64_t channels, const float* x,
                   const float* w, const float* rstd, float* y) {
  ForBlocks(context, rows, RowsPerTask(channels), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ScaleRow(channels, rstd[row], x + row * channels, w, y + row * channels);
    }
  });
}

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels) {
  return CeilDiv(rows, kGradientRows) * channels * static_cast<int64_t>(sizeof(float));
}

void RmsNormBackward(const Context& context, int64_t rows, int64_t channels, const float* dy,
                     const float* x, const float* w, const float* rstd, bool accumulate_dx,
                     float* dx, float* dw, void* workspace) {
  float* dw_sums = static_cast<float*>(workspace);  // [blocks, C]
  ForBlocks(context, rows, kGradientRows, [=](int64_t begin, int64_t end) {
    float* dw_sum = dw_sums + begin / kGradientRows * channels;
    std::fill(dw_sum, dw_sum + channels, 0.0f);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * channels;
      BackwardRow(channels, dy + at, x + at, w, rstd[row], accumulate_dx, dx + at, dw_sum);
    }
  });
  const int64_t blocks = CeilDiv(rows, kGradientRows);
  ForBlocks(context, channels, kCombineColumns, [=](int64_t begin, int64_t end) {
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      Vec sum = simd::Zero();
      for (int64_t block = 0; block < blocks; ++block) {
        sum = _mm256_add_ps(sum, lanes.Load(dw_sums + block * channels + begin + i));
      }
      lanes.Store(dw + begin + i, _mm256_add_ps(lanes.Load(dw + begin + i), sum));
    });
  });
}

}  // namespace strata::kernels
