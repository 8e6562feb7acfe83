#include "kernels/reference/adamw.h"

#include <cmath>

namespace strata::kernels::reference {

void AdamW(const AdamWParams& params, const Doubles& grad, AdamWState* state) {
  const double step = static_cast<double>(params.step);
  const double bias1 = 1 - std::pow(params.beta1, step), bias2 = 1 - std::pow(params.beta2, step);
  for (size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * params.grad_factor;
    state->param[i] *= 1 - params.learning_rate * params.weight_decay;
    state->m[i] += (g - state->m[i]) * (1 - params.beta1);
    state->v[i] = state->v[i] * params.beta2 + (1 - params.beta2) * g * g;
    const double denominator = std::sqrt(state->v[i]) / std::sqrt(bias2) + params.epsilon;
    state->param[i] -= params.learning_rate / bias1 * state->m[i] / denominator;
  }
}

void AdamWFixUp(const AdamWParams& params, const Doubles& m_speculative, AdamWState* state) {
  Doubles grad(m_speculative.size());
  for (size_t i = 0; i < grad.size(); ++i) {
    grad[i] = (m_speculative[i] - params.beta1 * state->m[i]) / (1 - params.beta1);
  }
  AdamW(params, grad, state);
}

}  // namespace strata::kernels::reference
