#include "planner/cost/measured_times.h"

#include <gtest/gtest.h>

namespace strata::planner {
namespace {

TEST(TimesBySizeTest, BetweenSizesLiesTheStraightLine) {
  TimesBySize times;
  times.Add(1000, 2);
  times.Add(3000, 3);
  EXPECT_DOUBLE_EQ(times.At(1000), 2);
  EXPECT_DOUBLE_EQ(times.At(2000), 2.5);
  EXPECT_DOUBLE_EQ(times.At(3000), 3);
}

TEST(TimesBySizeTest, BelowTheSmallestIsItsTime_BeyondTheLargestTheLastRate) {
  TimesBySize times;
  times.Add(1000, 2);
  times.Add(2000, 3);
  times.Add(4000, 7);
  EXPECT_DOUBLE_EQ(times.At(1), 2);
  EXPECT_DOUBLE_EQ(times.At(6000), 11);
}

TEST(TimesBySizeTest, MoreNeverTakesLess_WhateverNoiseSays) {
  TimesBySize times;
  times.Add(1000, 3);
  times.Add(2000, 2);
  EXPECT_DOUBLE_EQ(times.At(4000), 3);
}

TEST(TimesBySizeTest, OneSizeAloneIsARate) {
  TimesBySize times;
  times.Add(1000, 2);
  EXPECT_DOUBLE_EQ(times.At(500), 2);
  EXPECT_DOUBLE_EQ(times.At(2000), 4);
}

TEST(TimesByShapeTest, MeasuredShapeHasItsOwnTime_WhateverIsNear) {
  TimesByShape times;
  times.Add({1, 1}, 100, 5);
  times.Add({1, 2}, 100, 50);
  times.Add({2, 1}, 100, 500);
  EXPECT_NEAR(times.At({1, 1}, 100), 5, 1e-3);
  EXPECT_NEAR(times.At({2, 1}, 100), 500, 1e-1);
}

TEST(TimesByShapeTest, RateBetweenTwoShapesIsTheirGeometricMean_AndWorkScalesIt) {
  TimesByShape times;
  times.Add({0}, 10, 10);   // 1 s per unit
  times.Add({2}, 10, 160);  // 16 s per unit
  EXPECT_NEAR(times.At({1}, 1), 4, 1e-6);
  EXPECT_NEAR(times.At({1}, 7), 28, 1e-6);
}

TEST(TimesByShapeTest, NearerShapesCountMore_AndTheFarthestNotAtAll) {
  TimesByShape times;
  for (const double at : {0.0, 1.0, 2.0, 3.0}) times.Add({at}, 1, 1);
  times.Add({100}, 1, 1e9);
  EXPECT_NEAR(times.At({2}, 1), 1, 1e-6);
  EXPECT_NEAR(times.At({5}, 1), 1, 1e-6);
}

}  // namespace
}  // namespace strata::planner
