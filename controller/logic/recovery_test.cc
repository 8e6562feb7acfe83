// From a failure to epoch + 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::kFailed;
using testing::kInterrupted;
using ::testing::SizeIs;
using testing::TwoNodes;

TEST_F(TwoNodes, ATrainersDeathBeginsANewEpochAtOnceWhenAllRanksAreGone) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 20);
  h.SayCommit("n0", "a", 1, 20, "m20");
  h.SayStep("n0", "a", 1, 33);
  h.Take("n0");
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 on n1 was killed by signal 9", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").reason(), "rank 1 on n1 was killed by signal 9");
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 13);
  const auto stop = h.Take("n0");
  ASSERT_THAT(stop, SizeIs(1));
  EXPECT_FALSE(stop[0].stop().checkpoint());
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").step(), 20);
  EXPECT_EQ(h.Take("n1").back().prepare().checkpoint().manifest_digest(), "m20");
}

TEST_F(TwoNodes, TheCulpritsOwnWordReplacesAnEchoAsTheReason) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n0", "a", 1, kFailed, "the connection to rank 1 broke", -1);
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 on n1 was killed by signal 11", 1);
  EXPECT_EQ(h.Job("a").events(0).reason(), "rank 1 on n1 was killed by signal 11");
  EXPECT_THAT(h.Job("a").events(), SizeIs(1));
}

TEST_F(TwoNodes, SpareDevicesAreTakenWhenAnOldNodeIsLost) {
  h.Join("n2");
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0", "n2"});
  h.SayHang("n0", "a", 1, 1, {1});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 1 on n1"));
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("group data, instruction reduce block 1"));
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.Pass(1, {"n0", "n2"});  // n1 is lost by now
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n2");
}

v1::AgentMessage Hang(bool suspected, bool storage) {
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  hang.mutable_epoch()->set_job("jobs/a");
  hang.mutable_epoch()->set_epoch(1);
  hang.set_rank(0);
  hang.set_instruction("load batch");
  hang.set_local(true);
  hang.set_suspected(suspected);
  hang.set_storage(storage);
  return message;
}

TEST(Storage, AStallThatEndedTheRanksIsNotCountedAndBlamesNoNode) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  h.Say("n0", Hang(/*suspected=*/false, /*storage=*/true));
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  ASSERT_EQ(h.Job("a").events_size(), 1);
  EXPECT_EQ(h.Job("a").events(0).cause(), "storage");
  EXPECT_EQ(h.Node("n0").failure_times_size(), 0);
}

TEST(Storage, AHangOfTheSameRankIsCountedAndBlamesItsNode) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  h.Say("n0", Hang(/*suspected=*/false, /*storage=*/false));
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  EXPECT_EQ(h.Node("n0").failure_times_size(), 1);
}

// Long as they are, they stand beside the job's record and not in it.
TEST(Hangs, WhereTheThreadsStandIsToldWithTheEvent) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  v1::AgentMessage message = Hang(/*suspected=*/true, /*storage=*/false);
  message.mutable_hang()->set_stack("strata-trainer\n  pread64 (libc.so.6)\n");
  h.Say("n0", message);
  const auto last = [&h] { return h.core->JobEvents("jobs/a")->front()->event; };
  EXPECT_EQ(last().detail(), "strata-trainer\n  pread64 (libc.so.6)\n");
  message.mutable_hang()->set_suspected(false);
  message.mutable_hang()->set_stack(std::string(100'000, 'x'));
  h.Say("n0", message);
  EXPECT_EQ(last().type(), "RESTART");
  EXPECT_EQ(last().detail().size(), 8192);
  EXPECT_EQ(h.Job("a").events(0).detail(), "");
}

TEST(Storage, WhatIsOnlySuspectedChangesNothing) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  h.Say("n0", Hang(/*suspected=*/true, /*storage=*/false));
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
}

// However long the others wait: its own agent, while that is heard, knows how long it may.
TEST_F(TwoNodes, ARankThatIsMissedBecauseItWaitsForStorageIsNotGivenUp) {
  h.Run("a", {"n0", "n1"});
  h.SayBeat("n1", "a", 1, 1, "storage: load batch");
  h.SayHang("n0", "a", 1, 1, {1});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayBeat("n1", "a", 1, 1, "forward block 1");
  h.SayHang("n0", "a", 1, 1, {1});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, ARankThatWaitedForStorageOnANodeThatIsSilentNowIsGivenUp) {
  h.Run("a", {"n0", "n1"});
  h.SayBeat("n1", "a", 1, 1, "storage: load batch");
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, ASilentNodeThatComesBackWaitingForItsStorageWasNotLost) {
  h.Run("a", {"n0", "n1"});
  h.SayBeat("n1", "a", 1, 1, "storage: load batch");
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  ASSERT_EQ(h.Job("a").events(0).cause(), "node_lost");
  ASSERT_EQ(h.Job("a").restarts_without_progress(), 1);
  h.SayBeat("n1", "a", 1, 1, "storage: load batch");
  EXPECT_EQ(h.Job("a").events(0).cause(), "storage");
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Node("n1").failure_times_size(), 0);
}

TEST_F(TwoNodes, ASilentNodeThatWasNotSeenWaitingForItsStorageWasLost) {
  h.Run("a", {"n0", "n1"});
  h.SayBeat("n1", "a", 1, 1, "forward block 1");
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  h.SayBeat("n1", "a", 1, 1, "storage: load batch");
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
}

TEST_F(TwoNodes, AFrozenNodesDeviceIsUsedAgainOnlyAfterItsWord) {
  v1::Policy policy;
  policy.mutable_scheduling()->set_shrink_after_seconds(1000);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.Pass(120, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  h.Take("n1");
  h.Pass(2, {"n0", "n1"});  // it wakes in the same session: its heartbeats go on
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_TRUE(h.Take("n1").front().has_stop());
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, RestartsWithoutProgressAreBoundedAndBackOff) {
  h.Run("a", {"n0", "n1"});
  for (int epoch = 1; epoch <= 4; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    ASSERT_NE(h.Job("a").state(), v1::Job::FAILED);
    if (epoch > 1) Start("a");
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    if (epoch == 2) {
      EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);  // backs off
    }
    h.Pass(0.5, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 4);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("4 times in a row without a new checkpoint"));
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("crash"));
}

TEST_F(TwoNodes, ACommittedCheckpointRefillsTheBudget) {
  h.Run("a", {"n0", "n1"});
  for (int epoch = 1; epoch <= 12; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    Start("a");
    if (epoch % 4 == 0) h.SayCommit("n0", "a", epoch, epoch, "m");
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    h.Pass(1, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
}

TEST_F(TwoNodes, OfSeveralMissingRanksTheOneThatIsElsewhereIsNamed) {
  h.Join("n2");
  h.Run("a", {"n0", "n1", "n2"});
  h.SayBeat("n1", "a", 1, 1, "reduce block 1");
  h.SayBeat("n2", "a", 1, 2, "forward block 0");
  h.SayHang("n0", "a", 1, 1, {1, 2});
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 2 on n2 is missing in group data"));
  EXPECT_EQ(h.Job("a").events(0).cause(), "hang");
}

TEST_F(TwoNodes, AnUnsureBlameIsReplacedByTheCulpritsOwnAgent) {
  h.Join("n2");
  h.Run("a", {"n0", "n1", "n2"});
  h.SayHang("n0", "a", 1, 1, {1, 2});
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 1 on n1"));
  h.SayHang("n2", "a", 1, 2);
  EXPECT_EQ(h.Job("a").reason(),
            "rank 2 on n2 has not moved for 3.5 s in group data, instruction reduce block 1");
}

TEST_F(TwoNodes, ARecoveringJobKeepsItsDevicesFromTheQueueForALease) {
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  h.SayEnded("n0", "a", 1, kInterrupted);
  (void)h.Create(Harness::Request("b", 1));
  h.Pass(20, {"n0"});
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  h.Pass(11, {"n0"});
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
}

}  // namespace
}  // namespace strata::controller
