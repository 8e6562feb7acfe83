#include "kernels/swiglu.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::Vec;

Vec Sigmoid(Vec x) {
  const Vec one = simd::Set(1.0f);
  const Vec exp_minus = simd::Exp(_mm256_xor_ps(x, simd::Set(-0.0f)));
  return _mm256_div_ps(one, _mm256_add_ps(one, exp_minus));
}

}  // namespace

void SwiGluForward(const Context& context, int64_t rows, int64_t ffn, const float* gate_up,
                   float* h) {
  ForBlocks(context, rows, RowsPerTask(ffn), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * ffn;
      const float* up = gate + ffn;
      float* to = h + row * ffn;
      simd::ForEachVec(ffn, [=](int64_t i, auto lanes) {
        const Vec g = lanes.Load(gate + i);
        lanes.Store(to + i, _mm256_mul_ps(_mm256_mul_ps(g, Sigmoid(g)), lanes.Load(up + i)));
      });
    }
  });
}

void SwiGluBackward(const Context& context, int64_t rows, int64_t ffn, const float* dh,
                    const float* gate_up, float* dgate_up) {
  ForBlocks(context, rows, RowsPerTask(ffn), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * ffn;
      const float* up = gate + ffn;
      const float* from = dh + row * ffn;
      float* dgate = dgate_up + row * 2 * ffn;
      float* dup = dgate + ffn;
      simd::ForEachVec(ffn, [=](int64_t i, auto lanes) {
        const Vec g = lanes.Load(gate + i), u = lanes.Load(up + i), d = lanes.Load(from + i);
        const Vec sigmoid = Sigmoid(g);
        const Vec silu = _mm256_mul_ps(g, sigmoid);
        // silu' = sigmoid + silu (1 - sigmoid)
        const Vec slope = _mm256_fnmadd_ps(silu, sigmoid, _mm256_add_ps(sigmoid, silu));
        lanes.Store(dgate + i, _mm256_mul_ps(_mm256_mul_ps(d, u), slope));
        lanes.Store(dup + i, _mm256_mul_ps(d, silu));
      });
    }
  });
}

}  // namespace strata::kernels
