#include "worker/trainer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/rng.h"

namespace strata::worker {
namespace {

// Tokens by likelihood, the likeliest first, and how likely they are next to it.
class Ranking {
 public:
  Ranking(absl::Span<const float> logits, double temperature) : logits_(logits) {
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
    // What is not a number counts as impossible: comparisons must agree with each other.
    const auto value = [&](int32_t token) {
      return std::isnan(logits[token]) ? -HUGE_VALF : logits[token];
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int32_t a, int32_t b) { return value(a) > value(b); });
    const double largest = value(order_[0]);
    for (const int32_t token : order_) {
      weights_.push_back(std::exp((value(token) - largest) / temperature));
    }
  }

  void KeepTopK(int64_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= order_.size()) return;
    size_t kept = static_cast<size_t>(k);
    while (kept < order_.size() && logits_[order_[kept]] == logits_[order_[k - 1]]) ++kept;
    Keep(kept);
  }

  void KeepTopP(double p) {
    if (p <= 0 || p >= 1) return;
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    double sum = 0;
    size_t kept = 0;
    while (kept < weights_.size() && sum < p * total) sum += weights_[kept++];
    Keep(std::max<size_t>(kept, 1));
  }

  // In the order of their ids, as without a limit.
  std::vector<int32_t> Ascending() const {
    std::vector<int32_t> tokens = order_;
    std::sort(tokens.begin(), tokens.end());
    return tokens;
  }

 private:
  void Keep(size_t count) {
    order_.resize(count);
    weights_.resize(count);
  }

  absl::Span<const float> logits_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace

int32_t SampleToken(absl::Span<const float> logits, const SamplingRule& rule, int64_t position) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const int32_t best = static_cast<int32_t>(largest - logits.begin());
  if (rule.temperature <= 0 || !std::isfinite(*largest)) return best;
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (rule.top_k > 0 || (rule.top_p > 0 && rule.top_p < 1)) {
    Ranking ranking(logits, rule.temperature);
    ranking.KeepTopK(rule.top_k);
    ranking.KeepTopP(rule.top_p);
    tokens = ranking.Ascending();
  }
  const auto weight = [&](int32_t token) {
    return std::exp((static_cast<double>(logits[token]) - *largest) / rule.temperature);
  };
  double total = 0;
  for (const int32_t token : tokens) total += weight(token);
  const double threshold =
      common::ToUniform(common::Philox(rule.seed, static_cast<uint64_t>(position), 0)[0]) * total;
  double sum = 0;
  for (const int32_t token : tokens) {
    sum += weight(token);
    if (sum >= threshold) return token;
  }
  return best;  // logits that are not finite
}

}  // namespace strata::worker
