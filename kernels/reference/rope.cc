#include "kernels/reference/rope.h"

#include <cmath>

namespace strata::kernels::reference {

Doubles Rope(const RopeShape& s, double theta, bool inverse, const Doubles& qkv,
             const std::vector<int32_t>& positions) {
  Doubles result = qkv;
  const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_size, half = s.width() / 2;
  for (int64_t row = 0; row < s.rows; ++row) {
    const int64_t counted = s.start + row % s.sequence;
    const double position = static_cast<double>(positions.empty() ? counted : positions[row]);
    for (int64_t head = 0; head < s.heads + s.kv_heads; ++head) {
      double* x = &result[row * stride + head * s.head_size];
      for (int64_t i = 0; i < half; ++i) {
        const double turn = std::pow(theta, -2.0 * static_cast<double>(i) / s.width());
        const double angle = (inverse ? -1 : 1) * position * turn;
        const double low = x[i], high = x[i + half];
        x[i] = low * std::cos(angle) - high * std::sin(angle);
        x[i + half] = high * std::cos(angle) + low * std::sin(angle);
      }
    }
  }
  return result;
}

}  // namespace strata::kernels::reference
