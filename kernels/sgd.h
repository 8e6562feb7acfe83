// Stochastic gradient descent with momentum, in the order of operations of PyTorch's
// torch.optim.SGD: weight decay is added to the gradient, dampening is 0, no Nesterov.
#ifndef STRATA_KERNELS_SGD_H_
#define STRATA_KERNELS_SGD_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/optimizer_update.h"

namespace strata::kernels {

struct SgdParams {
  double learning_rate = 0;
  double momentum = 0.9;
  double weight_decay = 0;
  double grad_factor = 1;  // multiplied into the gradient first: the clip factor
};

// Elements [begin, end): g = gradient * grad_factor + weight_decay * w; b = momentum * b + g;
// w -= learning_rate * b, where b is moment 0. (PyTorch's first step takes b = g, which is the same
// for b = 0.) Where there are blocks, begin and end are whole ones.
void Sgd(const Context& context, int64_t begin, int64_t end, const SgdParams& params,
         const NumbersOfUpdate& numbers);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_SGD_H_
