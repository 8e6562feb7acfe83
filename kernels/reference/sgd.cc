#include "kernels/reference/sgd.h"

namespace strata::kernels::reference {

void Sgd(const SgdParams& params, const Doubles& grad, Doubles* weights, Doubles* buffer) {
  for (size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * params.grad_factor + params.weight_decay * (*weights)[i];
    (*buffer)[i] = params.momentum * (*buffer)[i] + g;
    (*weights)[i] -= params.learning_rate * (*buffer)[i];
  }
}

}  // namespace strata::kernels::reference
