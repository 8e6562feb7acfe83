#include "model/optimizer/schedule.h"

#include "gtest/gtest.h"

namespace strata::model {
namespace {

ScheduleSpec Schedule(ScheduleSpec::Kind kind) {
  ScheduleSpec schedule;
  schedule.kind = kind;
  schedule.peak = 2e-3;
  schedule.steps = 100;
  schedule.warmup_steps = 20;
  schedule.final_fraction = 0.1;
  return schedule;
}

TEST(ScheduleTest, WarmUp_RisesLinearlyToThePeak) {
  for (const auto kind : {ScheduleSpec::Kind::kCosine, ScheduleSpec::Kind::kWarmupStableDecay,
                          ScheduleSpec::Kind::kConstant}) {
    const ScheduleSpec schedule = Schedule(kind);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1), 1e-4);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1e-3);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 20), 2e-3);
  }
}

TEST(ScheduleTest, Cosine_IsHalfWayInTheMiddleAndEndsAtTheFinalFraction) {
  const ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kCosine);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 60), 1.1e-3);
  // A quarter of the way: 0.1 + 0.9 · (1 + cos 45°) / 2 of the peak.
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 40), 2e-3 * (0.1 + 0.45 * 1.7071067811865475));
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 100), 2e-4);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 101), 2e-4);
}

TEST(ScheduleTest, WarmupStableDecay_HoldsThenFallsLinearly) {
  const ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kWarmupStableDecay);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 21), 2e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 80), 2e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 81), 2e-3 * (1 - 0.9 / 20));
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 90), 1.1e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 100), 2e-4);
}

TEST(ScheduleTest, WarmupStableDecay_NeverDecaysDuringWarmUp) {
  ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kWarmupStableDecay);
  schedule.warmup_steps = 95;
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 95), 2e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 100), 2e-4);
}

TEST(ScheduleTest, Constant_StaysAtThePeak) {
  const ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kConstant);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 21), 2e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 100), 2e-3);
}

TEST(ScheduleTest, WarmUpBeyondTheLastStep_OnlyRises) {
  ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kCosine);
  schedule.warmup_steps = 200;
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 100), 1e-3);
}

TEST(ScheduleTest, NoWarmUp_StartsBelowThePeakByOneStepOfCosine) {
  ScheduleSpec schedule = Schedule(ScheduleSpec::Kind::kCosine);
  schedule.warmup_steps = 0;
  schedule.steps = 2;
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1), 1.1e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 2e-4);
}

}  // namespace
}  // namespace strata::model
