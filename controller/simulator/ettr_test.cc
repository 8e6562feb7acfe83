#include "controller/simulator/ettr.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/random.h"
#include "controller/simulator/streams.h"

namespace strata::simulator {
namespace {

constexpr double kDay = 86400;

TEST(ExpectedEttr, IsTheStallAloneWithoutFailures) {
  EXPECT_DOUBLE_EQ(ExpectedEttr(0, 300, 2, 180), 300.0 / 302);
  EXPECT_NEAR(ExpectedEttr(1e-12, 300, 2, 180), 300.0 / 302, 1e-6);
}

// Figures of other hands: the first-order form (1 − λ (u0 + dt/2)) / (1 + w/dt) at 2,048 nodes and
// 3.79 failures per 1,000 node-days, where second-order terms are below 0.2 %.
TEST(ExpectedEttr, AgreesWithTheFirstOrderForm) {
  const double rate = 2048 * 3.79e-3 / kDay;
  for (const double pause : {60.0, 180.0}) {
    for (const double interval : {60.0, 300.0}) {
      const double first = (1 - rate * (pause + interval / 2)) / (1 + 2 / interval);
      EXPECT_NEAR(ExpectedEttr(rate, interval, 2, pause), first, 0.002);
    }
  }
}

// By hand: λτ = ln 2 makes one lost attempt per segment in the mean.
TEST(ExpectedEttr, IsWhatHandArithmeticSays) {
  const double interval = 90, stall = 10, pause = 50;
  const double rate = std::log(2.0) / (interval + stall);
  EXPECT_NEAR(ExpectedEttr(rate, interval, stall, pause), interval / (1 / rate + pause), 1e-12);
}

// The process itself, drawn: segments that need τ seconds, strikes while work goes on, pauses of
// any distribution with the mean u0.
TEST(ExpectedEttr, AgreesWithTheProcessItDescribes) {
  common::Random random(7, kFailures);
  for (const double rate : {1.0 / 5000, 1.0 / 400, 1.0 / 150}) {
    const double interval = 300, stall = 5, pause = 120;
    double seconds = 0, strike = random.Exponential(1 / rate);
    constexpr int kSegments = 60'000;
    for (int segment = 0; segment < kSegments; ++segment) {
      while (strike < interval + stall) {
        seconds += strike + (random.Chance(0.5) ? 0.5 : 1.5) * pause;
        strike = random.Exponential(1 / rate);
      }
      seconds += interval + stall;
      strike -= interval + stall;
    }
    const double expected = ExpectedEttr(rate, interval, stall, pause);
    EXPECT_NEAR(kSegments * interval / seconds / expected, 1, 0.02) << "rate " << rate;
  }
}

}  // namespace
}  // namespace strata::simulator
