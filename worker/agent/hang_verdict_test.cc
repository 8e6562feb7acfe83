#include "worker/agent/hang_verdict.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kStream = 2;
constexpr double kConnected = 1000;

RankView Training(int rank) {
  RankView view;
  view.rank = rank;
  view.phase = Phase::kTraining;
  view.groups["data"] = {0, 1};
  view.begun[{"data", kStream}] = 17;
  return view;
}

RankActivity Work(double seconds, double slowest) {
  RankActivity activity;
  activity.instruction = "forward block 3";
  activity.seconds = seconds;
  activity.slowest = slowest;
  return activity;
}

RankActivity Wait(double seconds, double slowest) {
  RankActivity activity = Work(seconds, slowest);
  activity.instruction = "reduce block 3";
  activity.group = "data";
  activity.stream = kStream;
  activity.sequence = 17;
  return activity;
}

TEST(HangVerdictTest, RanksThatMoveAreFine) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Work(2.9, 0.01)};
  b.activities = {Wait(2.9, 0.01)};
  EXPECT_FALSE(JudgeHang({a, b}, kConnected).has_value());
  EXPECT_FALSE(JudgeHang({}, kConnected).has_value());
}

TEST(HangVerdictTest, AStoppedRankIsNamedAtOnceWithWhatItHoldsUp) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(0.1, 0.05)};
  b.stopped = true;
  b.activities = {Work(0.1, 0.05)};
  const auto verdict = JudgeHang({a, b}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->local);
  EXPECT_EQ(verdict->group, "data");
  EXPECT_EQ(verdict->instruction, "forward block 3");
  EXPECT_TRUE(verdict->stopped);
  EXPECT_THAT(Describe(*verdict), HasSubstr("'s process was stopped"));
}

TEST(HangVerdictTest, ARankStuckInItsOwnWorkIsTheCulpritNotTheOneThatWaits) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(9, 0.05)};
  b.activities = {Work(3.1, 0.05)};
  b.begun[{"data", kStream}] = 16;
  const auto verdict = JudgeHang({a, b}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(Describe(*verdict), HasSubstr("rank 1 has not moved for 3.1 s: 'forward block 3'"));
}

TEST(HangVerdictTest, WhatTookLongLatelyMayTakeFiveTimesThat) {
  RankView a = Training(0);
  a.activities = {Work(9.9, 2)};
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
  a.activities = {Work(10.1, 2)};
  EXPECT_TRUE(JudgeHang({a}, kConnected).has_value());
}

TEST(HangVerdictTest, FirstExecutionsEvaluationsAndCheckpointsHaveAMinute) {
  RankView a = Training(0);
  a.activities = {Work(59, 0)};
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
  a.activities = {Work(61, 0)};
  EXPECT_TRUE(JudgeHang({a}, kConnected).has_value());
  a.activities = {Work(59, 0.01)};
  a.phase = Phase::kEvaluating;
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
  a.phase = Phase::kTraining;
  EXPECT_TRUE(JudgeHang({a}, kConnected).has_value());
  a.checkpointing = true;
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
}

TEST(HangVerdictTest, LoadingHasAMinuteAndWaitingForOthersHasNoEnd) {
  RankView a = Training(0);
  a.phase_seconds = 61;
  for (const Phase phase : {Phase::kStarting, Phase::kConnecting, Phase::kLoading}) {
    a.phase = phase;
    EXPECT_TRUE(JudgeHang({a}, kConnected).has_value()) << Name(phase);
  }
  a.phase_seconds = 1e6;
  for (const Phase phase : {Phase::kJoining, Phase::kCommitting, Phase::kEnding}) {
    a.phase = phase;
    EXPECT_FALSE(JudgeHang({a}, kConnected).has_value()) << Name(phase);
  }
}

TEST(HangVerdictTest, WhereAllHereHaveComeTheMissingRankIsElsewhere) {
  RankView a = Training(0), b = Training(1);
  a.groups["data"] = b.groups["data"] = {0, 1, 2, 3};
  a.activities = {Wait(3.5, 0.05)};
  b.activities = {Wait(3.2, 0.05)};
  const auto verdict = JudgeHang({a, b}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->local);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_THAT(verdict->missing, ElementsAre(2, 3));
  EXPECT_THAT(verdict->waiting, ElementsAre(0, 1));
  EXPECT_EQ(verdict->group, "data");
  EXPECT_EQ(verdict->sequence, 17u);
  EXPECT_EQ(verdict->instruction, "reduce block 3");
}

TEST(HangVerdictTest, AnotherNodeIsMissedNoLongerThanTheControllerCouldHaveToldOfIt) {
  RankView a = Training(0);
  a.activities = {Wait(100, 0.05)};
  EXPECT_FALSE(JudgeHang({a}, 2.9).has_value());
  const auto verdict = JudgeHang({a}, 3.1);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->seconds, 3.1);
}

TEST(HangVerdictTest, ALaggingRankThatWorksOrCommitsIsNoCulprit) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(50, 0.05)};
  b.begun[{"data", kStream}] = 16;
  b.activities = {Work(2, 0.05)};
  EXPECT_FALSE(JudgeHang({a, b}, kConnected).has_value());
  b.activities.clear();
  b.phase = Phase::kCommitting;
  b.quiet_seconds = 50;
  EXPECT_FALSE(JudgeHang({a, b}, kConnected).has_value());
  b.phase = Phase::kTraining;
  const auto verdict = JudgeHang({a, b}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(verdict->waiting, ElementsAre(0));
}

TEST(HangVerdictTest, WhereAllHaveComeAndNothingEndsNobodyIsNamed) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(59, 0.05)};
  b.activities = {Wait(59, 0.05)};
  EXPECT_FALSE(JudgeHang({a, b}, kConnected).has_value());
  a.activities = {Wait(61, 0.05)};
  const auto verdict = JudgeHang({a, b}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, -1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(Describe(*verdict), HasSubstr("all ranks wait for each other"));
}

TEST(HangVerdictTest, AWaitInAGroupNobodyToldOfIsNotJudged) {
  RankView a = Training(0);
  a.groups.clear();
  a.activities = {Wait(100, 0.05)};
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
}

TEST(HangVerdictTest, AMissingRankElsewhereIsToldTentativelyWhileItMayHaveReasonToBeLate) {
  RankView a = Training(0);
  a.groups["data"] = {0, 1};
  a.activities = {Wait(4, 0.05)};
  a.begun[{"data", a.activities[0].stream}] = a.activities[0].sequence;
  a.checkpointing = true;
  auto verdict = JudgeHang({a}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->local);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->tentative);
  a.checkpointing = false;
  verdict = JudgeHang({a}, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->tentative);
  a.activities[0].seconds = 2;
  EXPECT_FALSE(JudgeHang({a}, kConnected).has_value());
}

}  // namespace
}  // namespace strata::worker
