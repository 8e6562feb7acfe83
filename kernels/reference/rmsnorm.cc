#include "kernels/reference/rmsnorm.h"

#include <cmath>

namespace strata::kernels::reference {

RmsNorm RmsNormForward(int64_t rows, int64_t channels, double epsilon, const Doubles& x,
                       const Doubles& w) {
  Doubles rstd(rows);
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < channels; ++i) squares += x[row * channels + i] * x[row * channels + i];
    rstd[row] = 1 / std::sqrt(squares / static_cast<double>(channels) + epsilon);
  }
  return {RmsNormReplay(rows, channels, x, w, rstd), rstd};
}

Doubles RmsNormReplay(int64_t rows, int64_t channels, const Doubles& x, const Doubles& w,
                      const Doubles& rstd) {
  Doubles y(rows * channels);
  for (int64_t at = 0; at < rows * channels; ++at) {
    y[at] = x[at] * rstd[at / channels] * w[at % channels];
  }
  return y;
}

RmsNormGradient RmsNormBackward(int64_t rows, int64_t channels, const Doubles& dy, const Doubles& x,
                                const Doubles& w, const Doubles& rstd) {
  RmsNormGradient gradient{Doubles(rows * channels), Doubles(channels)};
  for (int64_t row = 0; row < rows; ++row) {
    const double r = rstd[row];
    double mean = 0;  // of dy w x
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t at = row * channels + i;
      mean += dy[at] * w[i] * x[at] / static_cast<double>(channels);
      gradient.dw[i] += dy[at] * x[at] * r;
    }
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t at = row * channels + i;
      gradient.dx[at] = r * (dy[at] * w[i] - x[at] * r * r * mean);
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
