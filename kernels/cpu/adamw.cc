#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cpu/optimizer_update.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

namespace {

using simd::Vec;

// Eight elements at a time.
class Rule {
 public:
  // Scalars in double precision, rounded once, as PyTorch does.
  explicit Rule(const AdamWParams& params) {
    const double bias1 = 1 - std::pow(params.beta1, static_cast<double>(params.step));
    const double bias2 = 1 - std::pow(params.beta2, static_cast<double>(params.step));
    const auto set = [](double x) { return simd::Set(static_cast<float>(x)); };
    keep_ = set(1 - params.learning_rate * params.weight_decay);
    beta1_rest_ = set(1 - params.beta1);
    beta2_ = set(params.beta2);
    beta2_rest_ = set(1 - params.beta2);
    root_bias2_ = set(std::sqrt(bias2));
    epsilon_ = set(params.epsilon);
    step_size_ = set(params.learning_rate / bias1);
    factor_ = set(params.grad_factor);
  }

  // `gradient`: before the factor.
  [[gnu::always_inline]] void operator()(Vec gradient, Vec& p, Vec& m, Vec& v) const {
    const Vec g = simd::Mul(gradient, factor_);
    p = simd::Mul(p, keep_);
    m = simd::MulAdd(beta1_rest_, simd::Sub(g, m), m);
    v = simd::MulAdd(simd::Mul(beta2_rest_, g), g, simd::Mul(v, beta2_));
    const Vec root = simd::Div(simd::Sqrt(v), root_bias2_);
    const Vec update = simd::Div(m, simd::Add(root, epsilon_));
    p = simd::NegMulAdd(step_size_, update, p);
  }

 private:
  Vec keep_, beta1_rest_, beta2_, beta2_rest_, root_bias2_, epsilon_, step_size_, factor_;
};

// `gradient(i, lanes, m)`: eight gradients from element i on, before the factor; m is the first
// moment there.
template <typename Gradient>
void Update(const Context& context, int64_t count, const AdamWParams& params, Gradient gradient,
            const float* param_in, const float* m_in, const float* v_in, float* param_out,
            float* m_out, float* v_out) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    const Rule rule(params);
    simd::ForEachVec(end - begin, [=](int64_t offset, auto lanes) {
      const int64_t i = begin + offset;
      Vec m = lanes.Load(m_in + i), v = lanes.Load(v_in + i), p = lanes.Load(param_in + i);
      rule(gradient(i, lanes, m), p, m, v);
      lanes.Store(param_out + i, p);
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

void MixedAdamW(const Context& context, int64_t begin, int64_t end, const AdamWParams& params,
                const NumbersOfUpdate& numbers) {
  const Rule rule(params);
  UpdateInBlocks<2>(
      context, numbers, begin, end,
      [&](int64_t size, const float* gradient, const UpdateBlock& now, const UpdateBlock& next) {
        simd::ForEachVec(size, [&](int64_t i, auto lanes) {
          Vec m = lanes.Load(now.moments[0] + i), v = lanes.Load(now.moments[1] + i);
          Vec p = lanes.Load(now.weights + i);
          rule(lanes.Load(gradient + i), p, m, v);
          lanes.Store(next.weights + i, p);
          lanes.Store(next.moments[0] + i, m);
          lanes.Store(next.moments[1] + i, v);
        });
      });
}

void AdamWFixUp(const Context& context, int64_t count, const AdamWParams& params,
                const float* m_speculative, const float* param_in, const float* m_in,
                const float* v_in, float* param_out, float* m_out, float* v_out) {
  const Vec scale = simd::Set(static_cast<float>(1 / (1 - params.beta1)));
  const auto recovered = [=](int64_t i, auto lanes, Vec m) {
    return simd::MulAdd(simd::Sub(lanes.Load(m_speculative + i), m), scale, m);
  };
  Update(context, count, params, recovered, param_in, m_in, v_in, param_out, m_out, v_out);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(void, AdamW, const Context&, int64_t, const AdamWParams&, const float*,
                    const float*, const float*, const float*, float*, float*, float*)
STRATA_PLAIN_KERNEL(void, MixedAdamW, const Context&, int64_t, int64_t, const AdamWParams&,
                    const NumbersOfUpdate&)
STRATA_PLAIN_KERNEL(void, AdamWFixUp, const Context&, int64_t, const AdamWParams&, const float*,
                    const float*, const float*, const float*, float*, float*, float*)

}  // namespace strata::kernels
