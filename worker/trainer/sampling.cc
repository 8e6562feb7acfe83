#include "worker/trainer/sampling.h"

#include <algorithm>
#include <cmath>

#include "common/rng.h"

namespace strata::worker {

int32_t SampleToken(absl::Span<const float> logits, double temperature, uint64_t seed,
                    int64_t position) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const int32_t best = static_cast<int32_t>(largest - logits.begin());
  if (temperature <= 0) return best;
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - *largest) / temperature);
  };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  const double threshold =
      common::ToUniform(common::Philox(seed, static_cast<uint64_t>(position), 0)[0]) * total;
  double sum = 0;
  for (size_t token = 0; token < logits.size(); ++token) {
    sum += weight(logits[token]);
    if (sum >= threshold) return static_cast<int32_t>(token);
  }
  return best;  // logits that are not finite
}

}  // namespace strata::worker
