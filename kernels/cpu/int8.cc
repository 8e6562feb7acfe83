#include "kernels/int8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/number_types.h"

namespace strata::kernels::STRATA_ISA {
namespace {

constexpr float kLargestCode = 127;

}  // namespace

float Int8Scale(const float* row, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(row[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(row[i]));
  }
  return largest / kLargestCode;
}

void QuantiseInt8(const float* weights, int64_t count, float scale, int8_t* codes) {
  for (int64_t i = 0; i < count; ++i) {
    // Comparisons with NaN are false: of a row without a scale codes are zeros.
    const float code = scale > 0 ? std::nearbyint(weights[i] / scale) : 0;
    codes[i] = static_cast<int8_t>(std::clamp(code, -kLargestCode, kLargestCode));
  }
}

template <typename T>
void DequantiseInt8(const Context& context, const int8_t* codes, const float* scales, int64_t rows,
                    int64_t columns, T* weights) {
  ForBlocks(context, rows, RowsPerTask(columns), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const simd::Vec scale = simd::Set(scales[row]);
      const int8_t* const from = codes + row * columns;
      T* const to = weights + row * columns;
      simd::ForEachVec(columns, [=](int64_t i, auto lanes) {
        lanes.Store(to + i, simd::Mul(simd::ToFloats(lanes.LoadSignedBytes(from + i)), scale));
      });
    }
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(float, Int8Scale, const float*, int64_t)
STRATA_PLAIN_KERNEL(void, QuantiseInt8, const float*, int64_t, float, int8_t*)
STRATA_KERNEL(void, DequantiseInt8, const Context&, const int8_t*, const float*, int64_t, int64_t,
              T*)

}  // namespace strata::kernels
