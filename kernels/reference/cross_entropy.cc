#include "kernels/reference/cross_entropy.h"

#include <cmath>

namespace strata::kernels::reference {

double CrossEntropyLoss(int64_t vocab, const Tokens& targets, const Doubles& logits) {
  double loss = 0;
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[row * vocab + i]);
    loss += std::log(sum) - logits[row * vocab + targets[row]];
  }
  return loss;
}

Doubles CrossEntropyGradient(int64_t vocab, double scale, const Tokens& targets,
                             const Doubles& logits) {
  Doubles gradient(logits.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[row * vocab + i]);
    for (int64_t i = 0; i < vocab; ++i) {
      const double target = i == targets[row] ? 1 : 0;
      gradient[row * vocab + i] = scale * (std::exp(logits[row * vocab + i]) / sum - target);
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
