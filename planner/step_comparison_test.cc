#include "planner/step_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace strata::planner {
namespace {

using ::testing::SizeIs;

v1::StepRecord Record(int64_t number, double seconds, double predicted) {
  v1::StepRecord step;
  step.set_step(number);
  step.set_seconds(seconds);
  if (predicted > 0) step.set_predicted_seconds(predicted);
  const auto purpose = [&](const char* name, double compute, double exposed) {
    v1::PurposeSeconds& part = *step.add_purposes();
    part.set_purpose(name);
    part.set_compute_seconds(compute);
    part.set_exposed_seconds(exposed);
    part.set_predicted_compute_seconds(compute / 2);
    part.set_predicted_exposed_seconds(exposed / 4);
  };
  purpose("forward", 0.25, 0.5);
  purpose("backward", 0.5, 0);
  purpose("reduce", 0, 0.5);
  purpose("fetch", 0, 2);
  return step;
}

TEST(StepComparison, TheMedianIsToldAfterSixteenStepsThenWheneverTheyHaveDoubled) {
  StepComparison comparison;
  std::vector<int64_t> told;
  for (int64_t step = 1; step <= 130; ++step) {
    // The first is slow, and then every fifth one; neither is what the plan takes.
    const bool slow = step == 1 || step % 5 == 0;
    const auto compared = comparison.Add(Record(step, slow ? 50 : 3, 2));
    if (!compared.has_value()) continue;
    told.push_back(step);
    EXPECT_EQ(compared->ratio, 1.5) << step;
    EXPECT_EQ(compared->steps, told.size() == 1 ? 16 : (step - 1) / 2) << step;
  }
  EXPECT_EQ(told, std::vector<int64_t>({17, 33, 65, 129}));
}

TEST(StepComparison, TermsAreMeansOfWhatComputeTookAndWaitedFor) {
  StepComparison comparison;
  std::optional<ComparedSteps> compared;
  for (int64_t step = 1; step <= 17; ++step) compared = comparison.Add(Record(step, 3, 2));
  ASSERT_TRUE(compared.has_value());
  ASSERT_THAT(compared->terms, SizeIs(3));
  EXPECT_DOUBLE_EQ(compared->terms["compute"].measured_seconds, 0.75);
  EXPECT_DOUBLE_EQ(compared->terms["compute"].predicted_seconds, 0.375);
  EXPECT_DOUBLE_EQ(compared->terms["collectives"].measured_seconds, 1);
  EXPECT_DOUBLE_EQ(compared->terms["collectives"].predicted_seconds, 0.25);
  EXPECT_DOUBLE_EQ(compared->terms["transfers"].measured_seconds, 2);
  EXPECT_DOUBLE_EQ(compared->terms["transfers"].predicted_seconds, 0.5);
}

TEST(StepComparison, WhatIsNoComparisonDoesNotCount) {
  StepComparison comparison;
  comparison.Add(Record(1, 3, 2));
  for (int64_t step = 2; step <= 16; ++step) {
    EXPECT_FALSE(comparison.Add(Record(step, 3, 2)).has_value());
    EXPECT_FALSE(comparison.Add(Record(step, 3, 2)).has_value()) << "told twice";
  }
  EXPECT_FALSE(comparison.Add(Record(17, 3, 0)).has_value()) << "no prediction";
  EXPECT_FALSE(comparison.Add(Record(18, 1e9, 2)).has_value());
  EXPECT_FALSE(comparison.Add(Record(19, 0, 2)).has_value());
  EXPECT_FALSE(comparison.Add(Record(20, -3, 2)).has_value());
  EXPECT_FALSE(comparison.Add(Record(21, std::nan(""), 2)).has_value());
  EXPECT_FALSE(comparison.Add(Record(22, std::numeric_limits<double>::infinity(), 2)).has_value());
  EXPECT_TRUE(comparison.Add(Record(23, 3, 2)).has_value());
}

TEST(Learn, TheNewestCountsForHalf) {
  v1::PlanFamily family;
  planner::Learn({"w", "l"}, {.ratio = 4, .steps = 16}, 5, family);
  EXPECT_EQ(family.ratio(), 4);
  planner::Learn({"w", "l"}, {.ratio = 1, .steps = 16}, 6, family);
  EXPECT_EQ(family.ratio(), 2);
  EXPECT_EQ(family.steps(), 32);
  EXPECT_EQ(family.update_time().seconds(), 6);
}

}  // namespace
}  // namespace strata::planner
