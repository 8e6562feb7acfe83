#include "worker/trainer/sampling.h"

#include <array>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(SamplingTest, TemperatureZeroTakesTheFirstLargest) {
  EXPECT_EQ(SampleToken({1.0f, 3.0f, 3.0f, -1.0f}, 0, 1, 7), 1);
}

TEST(SamplingTest, TheSameSeedAndPositionGiveTheSameToken) {
  const std::array<float, 4> logits = {0.1f, 0.2f, 0.3f, 0.4f};
  for (int64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(SampleToken(logits, 1, 5, position), SampleToken(logits, 1, 5, position));
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
      ++counts[SampleToken(logits, temperature, 11, position)];
    }
    for (int i = 0; i < 3; ++i) {
      const double p = expected[i] / total;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws));
    }
  }
}

TEST(SamplingTest, LogitsThatAreNotFiniteStillGiveAToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int32_t token = SampleToken({nan, nan}, 1, 1, 1);
  EXPECT_GE(token, 0);
  EXPECT_LT(token, 2);
}

}  // namespace
}  // namespace strata::worker
