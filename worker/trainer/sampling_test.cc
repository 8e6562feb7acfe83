#include "worker/trainer/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(SamplingTest, TemperatureZeroTakesTheFirstLargest) {
  EXPECT_EQ(SampleToken({1.0f, 3.0f, 3.0f, -1.0f}, {}, 7), 1);
}

TEST(SamplingTest, TheSameSeedAndPositionGiveTheSameToken) {
  const std::array<float, 4> logits = {0.1f, 0.2f, 0.3f, 0.4f};
  for (int64_t position = 0; position < 100; ++position) {
    const SamplingRule rule{.temperature = 1, .seed = 5};
    EXPECT_EQ(SampleToken(logits, rule, position), SampleToken(logits, rule, position));
  }
}

TEST(SamplingTest, FrequenciesFollowTheSoftmaxAtEachTemperature) {
  const std::array<float, 3> logits = {0.0f, 1.0f, 2.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::array<double, 3> expected, counts{};
    double total = 0;
    for (int i = 0; i < 3; ++i) total += expected[i] = std::exp(logits[i] / temperature);
    constexpr int kDraws = 40000;
    for (int64_t position = 0; position < kDraws; ++position) {
      ++counts[SampleToken(logits, {.temperature = temperature, .seed = 11}, position)];
    }
    for (int i = 0; i < 3; ++i) {
      const double p = expected[i] / total;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws));
    }
  }
}

// Which tokens a rule leaves, worked out with every subset sorted anew.
std::set<int32_t> Allowed(const std::vector<float>& logits, const SamplingRule& rule) {
  std::vector<std::pair<double, int32_t>> ranked;
  for (size_t i = 0; i < logits.size(); ++i)
    ranked.push_back({-logits[i], static_cast<int32_t>(i)});
  std::sort(ranked.begin(), ranked.end());
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < ranked.size()) {
    const double border = ranked[static_cast<size_t>(rule.top_k) - 1].first;
    std::erase_if(ranked, [&](const auto& token) { return token.first > border; });
  }
  double total = 0, sum = 0;
  for (const auto& [key, token] : ranked) total += std::exp(-key / rule.temperature);
  std::set<int32_t> allowed;
  for (const auto& [key, token] : ranked) {
    if (rule.top_p > 0 && rule.top_p < 1 && !allowed.empty() && sum >= rule.top_p * total) break;
    allowed.insert(token);
    sum += std::exp(-key / rule.temperature);
  }
  return allowed;
}

TEST(SamplingTest, LimitsLeaveTheTokensAndSharesOfAReferenceInDoublePrecision) {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 2.0f, 1.0f, 0.5f, -3.0f, 1.5f};
  for (const int64_t top_k : {0, 1, 2, 3, 6, 20}) {
    for (const double top_p : {0.0, 0.05, 0.4, 0.7, 0.95, 1.0}) {
      const SamplingRule rule{.temperature = 0.8, .top_k = top_k, .top_p = top_p, .seed = 3};
      const std::set<int32_t> allowed = Allowed(logits, rule);
      double total = 0;
      for (const int32_t token : allowed) total += std::exp(logits[token] / rule.temperature);
      std::vector<double> counts(logits.size());
      constexpr int kDraws = 20000;
      for (int64_t position = 0; position < kDraws; ++position) {
        ++counts[SampleToken(logits, rule, position)];
      }
      for (int32_t i = 0; i < static_cast<int32_t>(logits.size()); ++i) {
        const double p = allowed.count(i) > 0 ? std::exp(logits[i] / rule.temperature) / total : 0;
        EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws))
            << top_k << " " << top_p;
      }
    }
  }
}

TEST(SamplingTest, LimitsThatLeaveAllChangeNothing) {
  const std::array<float, 4> logits = {0.1f, 2.2f, 0.3f, 1.4f};
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(SampleToken(logits, {.temperature = 1, .seed = 5}, position),
              SampleToken(logits, {.temperature = 1, .top_k = 4, .top_p = 1, .seed = 5}, position));
  }
}

TEST(SamplingTest, LogitsThatAreNotFiniteStillGiveAToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int32_t token =
      SampleToken({nan, nan}, {.temperature = 1, .top_k = 1, .top_p = 0.5, .seed = 1}, 1);
  EXPECT_GE(token, 0);
  EXPECT_LT(token, 2);
}

}  // namespace
}  // namespace strata::worker
