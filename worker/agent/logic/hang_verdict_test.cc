#include "worker/agent/logic/hang_verdict.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kStream = 2;
constexpr double kConnected = 1000;
constexpr HangLimits kLimits;  // the defaults

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
  EXPECT_FALSE(JudgeHang({a, b}, kLimits, kConnected).has_value());
  EXPECT_FALSE(JudgeHang({}, kLimits, kConnected).has_value());
}

TEST(HangVerdictTest, AStoppedRankIsNamedAtOnceWithWhatItHoldsUp) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(0.1, 0.05)};
  b.stopped = true;
  b.activities = {Work(0.1, 0.05)};
  const auto verdict = JudgeHang({a, b}, kLimits, kConnected);
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
  b.activities = {Work(61, 0.05)};
  b.begun[{"data", kStream}] = 16;
  const auto verdict = JudgeHang({a, b}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(Describe(*verdict), HasSubstr("rank 1 has not moved for 61.0 s: 'forward block 3'"));
}

TEST(HangVerdictTest, WhatTookLongLatelyMayTakeFiveTimesThat) {
  RankView a = Training(0);
  a.activities = {Work(99, 20)};
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
  a.activities = {Work(101, 20)};
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected).has_value());
}

TEST(HangVerdictTest, AKernelThatDoesNotEndIsSuspectedAfterSecondsAndHungAfterAMinute) {
  RankView a = Training(0);
  a.activities = {Work(2.9, 0.01)};
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
  a.activities = {Work(3.1, 0.01)};
  auto verdict = JudgeHang({a}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_TRUE(verdict->suspected);
  EXPECT_EQ(verdict->limit_seconds, 60);
  a.activities = {Work(61, 0.01)};
  verdict = JudgeHang({a}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->suspected);
  EXPECT_FALSE(verdict->storage);
}

TEST(HangVerdictTest, AStallOfABatchIsNoHangAndItsEndlessOneIsStorage) {
  RankView a = Training(0);
  a.activities = {Work(4.5, 0.01)};
  a.activities[0].storage = true;
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->suspected);
  a.activities[0].seconds = 599;
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->suspected);
  a.activities[0].seconds = 601;
  const auto verdict = JudgeHang({a}, kLimits, kConnected);
  EXPECT_FALSE(verdict->suspected);
  EXPECT_TRUE(verdict->storage);
  EXPECT_THAT(Describe(*verdict), HasSubstr("waiting for storage"));
}

// However long it takes in all: what counts is the time since a chunk was done.
TEST(HangVerdictTest, StorageThatMovesChunkByChunkIsNoHang) {
  RankView a = Training(0);
  a.activities = {Work(36000, 0.01)};
  a.activities[0].storage = true;
  a.storage_quiet_seconds = 599;
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->suspected);
  a.storage_quiet_seconds = 601;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected)->suspected);
  EXPECT_EQ(JudgeHang({a}, kLimits, kConnected)->seconds, 601);
  // A kernel beside it has its own time.
  a.storage_quiet_seconds = 1;
  a.activities[0].storage = false;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected)->storage);
  a.activities.clear();
  a.phase = Phase::kLoading;
  a.phase_seconds = 36000;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
  a.storage_quiet_seconds = 661;
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->storage);
}

TEST(HangVerdictTest, AFileOperationThatDoesNotEndIsFoundInEveryPhase) {
  RankView a = Training(0);
  a.phase = Phase::kCommitting;
  a.storage_quiet_seconds = 601;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());  // it is waited for, elsewhere
  a.in_storage_operation = true;
  const auto verdict = JudgeHang({a}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_TRUE(verdict->local && verdict->storage);
  a.storage_quiet_seconds = 599;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
}

TEST(HangVerdictTest, ACheckpointOf130GigabytesMayTakeWhatSlowStorageNeeds) {
  HangLimits limits;
  limits.bytes = 130'000'000'000;
  RankView a = Training(0);
  a.checkpointing = true;
  a.activities = {Work(1899, 0.01)};
  EXPECT_TRUE(JudgeHang({a}, limits, kConnected)->suspected);
  a.activities = {Work(1901, 0.01)};
  EXPECT_FALSE(JudgeHang({a}, limits, kConnected)->suspected);
}

TEST(HangVerdictTest, AThreadInStateDMakesItStorage) {
  RankView a = Training(0);
  a.in_storage = true;
  a.activities = {Work(599, 0.01)};
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->suspected);
  a.activities = {Work(601, 0.01)};
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->storage);
}

TEST(HangVerdictTest, PhasesHaveLimitsOfBytesAndRanksAndWaitingForOthersHasNoEnd) {
  HangLimits limits;
  limits.bytes = 1'000'000'000;
  limits.ranks = 1000;
  const auto hangs = [&](Phase phase, double seconds) {
    RankView a = Training(0);
    a.phase = phase;
    a.phase_seconds = seconds;
    return JudgeHang({a}, limits, kConnected).has_value();
  };
  EXPECT_FALSE(hangs(Phase::kConnecting, 159));
  EXPECT_TRUE(hangs(Phase::kConnecting, 161));
  EXPECT_FALSE(hangs(Phase::kLoading, 669));
  EXPECT_TRUE(hangs(Phase::kLoading, 671));
  EXPECT_FALSE(hangs(Phase::kStarting, 659));
  EXPECT_TRUE(hangs(Phase::kStarting, 661));
  for (const Phase phase : {Phase::kJoining, Phase::kCommitting, Phase::kEnding}) {
    EXPECT_FALSE(hangs(phase, 1e6)) << Name(phase);
  }
}

TEST(HangVerdictTest, WhereAllHereHaveComeTheMissingRankIsElsewhere) {
  RankView a = Training(0), b = Training(1);
  a.groups["data"] = b.groups["data"] = {0, 1, 2, 3};
  a.activities = {Wait(3.5, 0.05)};
  b.activities = {Wait(3.2, 0.05)};
  const auto verdict = JudgeHang({a, b}, kLimits, kConnected);
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
  EXPECT_FALSE(JudgeHang({a}, kLimits, 2.9).has_value());
  const auto verdict = JudgeHang({a}, kLimits, 3.1);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->seconds, 3.1);
}

TEST(HangVerdictTest, ALaggingRankThatWorksOrCommitsIsNoCulprit) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(50, 0.05)};
  b.begun[{"data", kStream}] = 16;
  b.activities = {Work(2, 0.05)};
  EXPECT_FALSE(JudgeHang({a, b}, kLimits, kConnected).has_value());
  b.activities.clear();
  b.phase = Phase::kCommitting;
  b.quiet_seconds = 61;
  EXPECT_FALSE(JudgeHang({a, b}, kLimits, kConnected).has_value());
  b.phase = Phase::kTraining;
  const auto verdict = JudgeHang({a, b}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(verdict->waiting, ElementsAre(0));
}

TEST(HangVerdictTest, WhereAllHaveComeAndNothingEndsNobodyIsNamed) {
  RankView a = Training(0), b = Training(1);
  a.activities = {Wait(59, 0.05)};
  b.activities = {Wait(59, 0.05)};
  EXPECT_FALSE(JudgeHang({a, b}, kLimits, kConnected).has_value());
  a.activities = {Wait(61, 0.05)};
  const auto verdict = JudgeHang({a, b}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, -1);
  EXPECT_TRUE(verdict->local);
  EXPECT_THAT(Describe(*verdict), HasSubstr("all ranks wait for each other"));
}

TEST(HangVerdictTest, AWaitInAGroupNobodyToldOfIsNotJudged) {
  RankView a = Training(0);
  a.groups.clear();
  a.activities = {Wait(100, 0.05)};
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
}

TEST(HangVerdictTest, AMissingRankElsewhereIsToldTentativelyWhileItMayHaveReasonToBeLate) {
  RankView a = Training(0);
  a.groups["data"] = {0, 1};
  a.activities = {Wait(4, 0.05)};
  a.begun[{"data", a.activities[0].stream}] = a.activities[0].sequence;
  auto verdict = JudgeHang({a}, kLimits, kConnected);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->local);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->tentative);
  // Its own agent gives it ten minutes where it waits for storage.
  a.activities[0].seconds = 659;
  EXPECT_TRUE(JudgeHang({a}, kLimits, kConnected)->tentative);
  a.activities[0].seconds = 661;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected)->tentative);
  a.activities[0].seconds = 2;
  EXPECT_FALSE(JudgeHang({a}, kLimits, kConnected).has_value());
}

}  // namespace
}  // namespace strata::worker
