#include "kernels/reference/int8.h"

#include <algorithm>
#include <cmath>

namespace strata::kernels::reference {

Int8Rows QuantiseInt8(const Doubles& weights, int64_t columns) {
  Int8Rows result;
  for (size_t row = 0; row < weights.size(); row += static_cast<size_t>(columns)) {
    double largest = 0;
    for (int64_t i = 0; i < columns; ++i) largest = std::max(largest, std::abs(weights[row + i]));
    const double scale = largest / 127;
    result.scales.push_back(scale);
    for (int64_t i = 0; i < columns; ++i) {
      // To the nearest, ties to even.
      result.codes.push_back(
          scale == 0 ? 0 : static_cast<int>(std::nearbyint(weights[row + i] / scale)));
    }
  }
  return result;
}

Doubles DequantiseInt8(const Int8Rows& rows) {
  Doubles weights;
  const size_t columns = rows.codes.size() / rows.scales.size();
  for (size_t i = 0; i < rows.codes.size(); ++i) {
    weights.push_back(rows.codes[i] * rows.scales[i / columns]);
  }
  return weights;
}

}  // namespace strata::kernels::reference
