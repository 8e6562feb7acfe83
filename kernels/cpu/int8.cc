#include "kernels/int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/number_types.h"

namespace strata::kernels {
namespace {

constexpr float kLargestCode = 127;

simd::Vec Numbers(const int8_t* codes) {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}
simd::Vec Load(const int8_t* codes, simd::Full) { return Numbers(codes); }
simd::Vec Load(const int8_t* codes, const simd::Tail& tail) {
  int8_t copy[simd::kLanes] = {};
  std::memcpy(copy, codes, tail.count);
  return Numbers(copy);
}

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
        lanes.Store(to + i, _mm256_mul_ps(Load(from + i, lanes), scale));
      });
    }
  });
}

template void DequantiseInt8(const Context&, const int8_t*, const float*, int64_t, int64_t, float*);
template void DequantiseInt8(const Context&, const int8_t*, const float*, int64_t, int64_t,
                             BFloat16*);
template void DequantiseInt8(const Context&, const int8_t*, const float*, int64_t, int64_t,
                             Float16*);

}  // namespace strata::kernels
