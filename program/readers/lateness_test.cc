#include "program/readers/lateness.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "program/readers/timeline.h"

namespace strata::program {
namespace {

// Seconds: a call's FLOPs, communication's bytes. Ranks that computed for t seconds come √t · drift
// after each other.
class DriftingRanks final : public CostModel {
 public:
  explicit DriftingRanks(double drift, const Interference& beside = {})
      : drift_(drift), beside_(beside) {}
  double OpSeconds(const Op& op) const override { return op.flops; }
  double CollectiveSeconds(const Communication& communication, GroupSpan) const override {
    return static_cast<double>(communication.bytes);
  }
  double MessageSeconds(const Communication& communication, GroupSpan) const override {
    return static_cast<double>(communication.bytes);
  }
  double TransferSeconds(Tier, Tier, int64_t) const override { return 0; }
  Interference Beside(const Communication&) const override { return beside_; }
  double LatenessSeconds(double apart) const override { return drift_ * std::sqrt(apart); }

 private:
  const double drift_;
  const Interference beside_;
};

Instruction Call(ProgramSet& set, double flops, std::vector<Dependency> dependencies = {}) {
  set.templates.push_back({.ops = {{.flops = flops}}});
  Instruction call{.label = "call"};
  call.template_index = static_cast<int>(set.templates.size()) - 1;
  call.dependencies = std::move(dependencies);
  return call;
}

// Of one byte.
Instruction Reduce(std::vector<Dependency> dependencies) {
  Instruction reduce{.mechanism = Mechanism::kCollective,
                     .purpose = Purpose::kReduce,
                     .label = "reduce",
                     .stream = Stream::kGradients};
  reduce.communication = {.op = CollectiveOp::kAllReduce, .group = Group::kData, .bytes = 1};
  reduce.dependencies = std::move(dependencies);
  return reduce;
}

RankTimeline Predict(ProgramSet set, std::vector<Instruction> instructions, const CostModel& costs,
                     int ranks = 2) {
  set.groups.data = ranks;
  set.programs.push_back({.name = "train", .instructions = std::move(instructions)});
  const auto timeline = PredictTimeline({&set}, "train", {.sizes = {.data = ranks}}, costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline->ranks[0];
}

TEST(LatenessTest, ComputeWaitsForTheOtherRankToo_TheLongerItComputed) {
  ProgramSet set;
  const std::vector<Instruction> step{Call(set, 8), Reduce({{0, 0}}), Call(set, 1, {{1, 0}})};
  const RankTimeline apart = Predict(set, step, DriftingRanks(0.5));
  EXPECT_NEAR(apart.step_seconds, 8 + 1.5 + 1 + 1, 1e-9);  // 9 seconds since the last wait
  EXPECT_NEAR(apart.exposed[static_cast<int>(Purpose::kReduce)], 2.5, 1e-9);
  EXPECT_NEAR(apart.background[static_cast<int>(Purpose::kReduce)], 2.5, 1e-9);
  EXPECT_NEAR(Predict(set, step, DriftingRanks(0)).step_seconds, 10, 1e-9);
}

TEST(LatenessTest, NobodyIsLateInAGroupOfOne) {
  ProgramSet set;
  const std::vector<Instruction> step{Call(set, 8), Reduce({{0, 0}}), Call(set, 1, {{1, 0}})};
  EXPECT_NEAR(Predict(set, step, DriftingRanks(0.5), /*ranks=*/1).step_seconds, 10, 1e-9);
}

TEST(LatenessTest, WhatFollowsAMeetingAtOnceIsNotLate) {
  ProgramSet set;
  const RankTimeline twice =
      Predict(set, {Call(set, 8), Reduce({{0, 0}}), Reduce({{0, 0}}), Call(set, 1, {{2, 0}})},
              DriftingRanks(0.5));
  ProgramSet other;
  const RankTimeline step =
      Predict(other, {Call(other, 8), Reduce({{0, 0}}), Reduce({{0, 0}}), Call(other, 1, {{2, 0}})},
              DriftingRanks(0));
  EXPECT_NEAR(step.step_seconds, 11, 1e-9);
  EXPECT_NEAR(twice.step_seconds, 12.5, 1e-9);
}

TEST(LatenessTest, ComputeThatGoesOnHidesIt) {
  ProgramSet set;
  const std::vector<Instruction> step{Call(set, 8), Reduce({{0, 0}}), Call(set, 3),
                                      Call(set, 1, {{1, 0}})};
  const RankTimeline hidden = Predict(set, step, DriftingRanks(0.2));
  EXPECT_NEAR(hidden.step_seconds, 12, 1e-9);
  EXPECT_NEAR(hidden.exposed_seconds, 0, 1e-9);
}

TEST(LatenessTest, WhoWaitsForAnotherIsNeitherStretchedNorCostsComputeAnything) {
  ProgramSet set;
  // 7.5 seconds after the last wait the other rank is late by what the call beside that takes.
  const std::vector<Instruction> step{Call(set, 6.5), Reduce({{0, 0}}), Call(set, 1.5),
                                      Call(set, 1, {{1, 0}})};
  const RankTimeline rank =
      Predict(set, step, DriftingRanks(1.5 / std::sqrt(7.5), {.compute_lost = 0.5, .stretch = 2}));
  EXPECT_NEAR(rank.compute_seconds, 9, 0.02);
  EXPECT_NEAR(rank.step_seconds, 10, 0.02);
}

TEST(LatenessTest, OfActionsItIsThatBeyondWhatTheyWaitForAnyway) {
  std::vector<Action> actions(3);
  actions[1].mechanism = actions[2].mechanism = Mechanism::kCollective;
  actions[1].stream = actions[2].stream = Stream::kGradients;
  actions[1].dependencies = actions[2].dependencies = {{0, 0}};
  // Compute ends at 4; one collective begins then, the next a second later.
  const std::vector<Span> spans{{0, 4}, {4, 5}, {5, 6}};
  const auto late = [](size_t, double apart) { return apart / 2; };
  EXPECT_EQ(Lateness(actions, spans, late), (std::vector<double>{0, 2, 1}));
}

}  // namespace
}  // namespace strata::program
