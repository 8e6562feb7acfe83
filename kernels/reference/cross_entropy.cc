#include "kernels/reference/cross_entropy.h"

#include <cmath>

namespace strata::kernels::reference {
namespace {

Doubles Capped(const Doubles& logits, double softcap) {
  Doubles capped = logits;
  for (double& x : capped) x = softcap == 0 ? x : softcap * std::tanh(x / softcap);
  return capped;
}

}  // namespace

double CrossEntropyLoss(int64_t vocab, const Tokens& targets, const Doubles& raw, double softcap) {
  const Doubles logits = Capped(raw, softcap);
  double loss = 0;
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[row * vocab + i]);
    loss += std::log(sum) - logits[row * vocab + targets[row]];
  }
  return loss;
}

Doubles CrossEntropyGradient(int64_t vocab, double scale, const Tokens& targets, const Doubles& raw,
                             double softcap) {
  const Doubles logits = Capped(raw, softcap);
  Doubles gradient(logits.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[row * vocab + i]);
    for (int64_t i = 0; i < vocab; ++i) {
      const double target = i == targets[row] ? 1 : 0;
      const double logit = logits[row * vocab + i];
      const double slope = softcap == 0 ? 1 : 1 - logit * logit / (softcap * softcap);
      gradient[row * vocab + i] = scale * slope * (std::exp(logit) / sum - target);
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
