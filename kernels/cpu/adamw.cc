#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {

namespace {

using simd::Vec;

// `gradient(i, lanes, m)`: eight gradients from element i on, before the factor; m is the first
// moment there.
template <typename Gradient>
void Update(const Context& context, int64_t count, const AdamWParams& params, Gradient gradient,
            const float* param_in, const float* m_in, const float* v_in, float* param_out,
            float* m_out, float* v_out) {
  // Scalars in double precision, rounded once, as PyTorch does.
  const double bias1 = 1 - std::pow(params.beta1, static_cast<double>(params.step));
  const double bias2 = 1 - std::pow(params.beta2, static_cast<double>(params.step));
  const auto set = [](double x) { return simd::Set(static_cast<float>(x)); };
  const Vec keep = set(1 - params.learning_rate * params.weight_decay);
  const Vec beta1_rest = set(1 - params.beta1);
  const Vec beta2 = set(params.beta2), beta2_rest = set(1 - params.beta2);
  const Vec root_bias2 = set(std::sqrt(bias2)), epsilon = set(params.epsilon);
  const Vec step_size = set(params.learning_rate / bias1), factor = set(params.grad_factor);
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    simd::ForEachVec(end - begin, [=](int64_t offset, auto lanes) {
      const int64_t i = begin + offset;
      Vec m = lanes.Load(m_in + i), v = lanes.Load(v_in + i), p = lanes.Load(param_in + i);
      const Vec g = _mm256_mul_ps(gradient(i, lanes, m), factor);
      p = _mm256_mul_ps(p, keep);
      m = _mm256_fmadd_ps(beta1_rest, _mm256_sub_ps(g, m), m);
      v = _mm256_fmadd_ps(_mm256_mul_ps(beta2_rest, g), g, _mm256_mul_ps(v, beta2));
      const Vec root = _mm256_div_ps(_mm256_sqrt_ps(v), root_bias2);
      const Vec update = _mm256_div_ps(m, _mm256_add_ps(root, epsilon));
      lanes.Store(param_out + i, _mm256_fnmadd_ps(step_size, update, p));
      lanes.Store(m_out + i, m);
      lanes.Store(v_out + i, v);
    });
  });
}

}  // namespace

void AdamW(const Context& context, int64_t count, const AdamWParams& params, const float* grad,
           const float* param_in, const float* m_in, const float* v_in, float* param_out,
           float* m_out, float* v_out) {
  const auto stored = [=](int64_t i, auto lanes, Vec) { return lanes.Load(grad + i); };
  Update(context, count, params, stored, param_in, m_in, v_in, param_out, m_out, v_out);
}

void AdamWFixUp(const Context& context, int64_t count, const AdamWParams& params,
                const float* m_speculative, const float* param_in, const float* m_in,
                const float* v_in, float* param_out, float* m_out, float* v_out) {
  const Vec scale = simd::Set(static_cast<float>(1 / (1 - params.beta1)));
  const auto recovered = [=](int64_t i, auto lanes, Vec m) {
    return _mm256_fmadd_ps(_mm256_sub_ps(lanes.Load(m_speculative + i), m), scale, m);
  };
  Update(context, count, params, recovered, param_in, m_in, v_in, param_out, m_out, v_out);
}

}  // namespace strata::kernels
