#include "kernels/rope.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

void BuildRopeTable(int64_t first, int64_t count, int64_t rotary, double theta, float* table) {
  const int64_t half = rotary / 2;
  for (int64_t position = first; position < first + count; ++position) {
    float* row = table + (position - first) * rotary;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(theta, -2.0 * i / rotary);
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

template <typename T>
void RopeApply(const Context& context, const RopeShape& shape, const float* table,
               const int32_t* positions, bool inverse, T* qkv) {
  const int64_t half = shape.width() / 2;
  const int64_t turned = shape.heads + shape.kv_heads;
  const int64_t stride = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  const simd::Vec sign = simd::Set(inverse ? -0.0f : 0.0f);
  ForBlocks(context, shape.rows, RowsPerTask(stride), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position =
          positions != nullptr ? positions[row] : shape.start + row % shape.sequence;
      const float* cosines = table + position * shape.width();
      const float* sines = cosines + half;
      for (int64_t head = 0; head < turned; ++head) {
        T* x = qkv + row * stride + head * shape.head_size;
        simd::ForEachVec(half, [=](int64_t i, auto lanes) {
          const simd::Vec low = lanes.Load(x + i), high = lanes.Load(x + half + i);
          const simd::Vec cosine = lanes.Load(cosines + i);
          const simd::Vec sine = simd::Xor(lanes.Load(sines + i), sign);
          lanes.Store(x + i, simd::NegMulAdd(high, sine, simd::Mul(low, cosine)));
          lanes.Store(x + half + i, simd::MulAdd(low, sine, simd::Mul(high, cosine)));
        });
      }
    }
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, RopeApply, const Context&, const RopeShape&, const float*, const int32_t*, bool,
              T*)
STRATA_PLAIN_KERNEL(void, BuildRopeTable, int64_t, int64_t, int64_t, double, float*)

}  // namespace strata::kernels
