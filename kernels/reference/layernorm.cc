#include "kernels/reference/layernorm.h"

#include <cmath>

namespace strata::kernels::reference {

LayerNorm LayerNormForward(int64_t rows, int64_t channels, double epsilon, const Doubles& x,
                           const Doubles& w, const Doubles& b) {
  LayerNorm norm{Doubles(rows * channels), Doubles(rows * 2)};
  const auto count = static_cast<double>(channels);
  for (int64_t row = 0; row < rows; ++row) {
    const double* const of = &x[row * channels];
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < channels; ++i) mean += of[i] / count;
    for (int64_t i = 0; i < channels; ++i) variance += (of[i] - mean) * (of[i] - mean) / count;
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < channels; ++i) {
      norm.y[row * channels + i] = (of[i] - mean) * rstd * w[i] + b[i];
    }
    norm.statistics[row * 2] = mean;
    norm.statistics[row * 2 + 1] = rstd;
  }
  return norm;
}

LayerNormGradient LayerNormBackward(int64_t rows, int64_t channels, const Doubles& dy,
                                    const Doubles& x, const Doubles& w, const Doubles& statistics) {
  LayerNormGradient gradient{Doubles(rows * channels), Doubles(channels), Doubles(channels)};
  const auto count = static_cast<double>(channels);
  for (int64_t row = 0; row < rows; ++row) {
    const double mean = statistics[row * 2], rstd = statistics[row * 2 + 1];
    const auto normed = [&](int64_t i) { return (x[row * channels + i] - mean) * rstd; };
    double shift = 0, projection = 0;  // means of dy w and of dy w n
    for (int64_t i = 0; i < channels; ++i) {
      const double d = dy[row * channels + i];
      shift += d * w[i] / count;
      projection += d * w[i] * normed(i) / count;
      gradient.dw[i] += d * normed(i);
      gradient.db[i] += d;
    }
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t at = row * channels + i;
      gradient.dx[at] = rstd * (dy[at] * w[i] - shift - normed(i) * projection);
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
