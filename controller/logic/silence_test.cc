// What the controller concludes from silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Held;
using ::testing::IsEmpty;
using testing::TwoNodes;

v1::AgentMessage RankOneIsMissing() {
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  hang.mutable_epoch()->set_job("jobs/a");
  hang.mutable_epoch()->set_epoch(1);
  hang.set_rank(1);
  hang.add_missing(1);
  hang.set_tentative(true);
  return message;
}

// It is alive, hears nobody for far longer than a lease, and is then connected again: no job has
// lost a step, and none is asked to stop.
TEST_F(TwoNodes, AControllerThatIsCutOffStopsNoHealthyJob) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 5);
  h.Pass(60);
  EXPECT_TRUE(h.core->cut_off());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Pass(2, {"n0"});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  EXPECT_EQ(h.LastWelcome("n0").keep_size(), 1);
  EXPECT_EQ(h.LastWelcome("n1").keep_size(), 1);
  h.Pass(60, {"n0", "n1"});
  EXPECT_FALSE(h.core->cut_off());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Job("a").events_size(), 0);
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  EXPECT_THAT(h.Take("n1"), IsEmpty());
}

TEST_F(TwoNodes, AfterACutLeasesBeginAnewForThoseThatStayAway) {
  h.Run("a", {"n0", "n1"});
  h.Pass(60);
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Pass(29, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, MostNodesThatStayAwayAreLostAfterTenLeases) {
  h.Join("n2");
  h.Run("a", {"n0", "n1", "n2"});
  h.Pass(295, {"n2"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(15, {"n2"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, NodesThatWereLostLongAgoDoNotMakeAControllerSuspectItself) {
  h.Join("n2");
  h.Join("n3");
  h.Pass(40, {"n1", "n2", "n3"});
  h.Pass(40, {"n2", "n3"});
  h.Pass(40, {"n3"});
  EXPECT_FALSE(h.core->cut_off());
}

TEST_F(TwoNodes, ASlowCommitIsNobodysSilence) {
  h.Run("a", {"n0", "n1"});
  h.Work(40);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_FALSE(h.core->cut_off());
}

// Each step's commit takes 1.5 s: time passes nevertheless, and a lost node is found.
TEST_F(TwoNodes, SlowCommitsDoNotStopTime) {
  h.Run("a", {"n0", "n1"});
  for (int i = 0; i < 22; ++i) {
    h.Work(1.5);
    h.Pass(0.25, {"n0"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, ABrokenSessionMakesNoNodeSilent) {
  h.Run("a", {"n0", "n1"});
  h.Pass(1, {"n0", "n1"});
  h.EndSession("n1");
  h.Say("n0", RankOneIsMissing());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(3, {"n0"});
  h.Say("n0", RankOneIsMissing());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AnAgentThatSaidThatItHandsOverIsWaitedForAsLongAsItsLease) {
  h.Run("a", {"n0", "n1"});
  h.Pass(1, {"n0", "n1"});
  v1::AgentMessage goes;
  goes.mutable_handing_over();
  h.Say("n1", goes);
  h.EndSession("n1");
  h.Pass(20, {"n0"});
  h.Say("n0", RankOneIsMissing());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Join("n1", {Held("a", 1, {1}, true)});
  EXPECT_EQ(h.LastWelcome("n1").keep_size(), 1);
  // Its successor has said nothing of the kind.
  h.EndSession("n1");
  h.Pass(3, {"n0"});
  h.Say("n0", RankOneIsMissing());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AnAgentThatHandedOverToNobodyIsLostWithItsLease) {
  h.Run("a", {"n0", "n1"});
  v1::AgentMessage goes;
  goes.mutable_handing_over();
  h.Say("n1", goes);
  h.EndSession("n1");
  h.Pass(31, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, AnAgentThatHasYetToFindARestartedControllerIsWaitedForToo) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Join("n0", {Held("a", 1, {0}, true)});
  h.Pass(20, {"n0"});
  h.Say("n0", RankOneIsMissing());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Join("n1", {Held("a", 1, {1}, true)});
  h.Pass(2, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

// The answer to the commit of step 10 may be lost: rank 0 counts two that are not committed.
TEST_F(TwoNodes, ARankZeroThatMayWaitForCommitsIsNotMissing) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 10, "m10");
  h.EndSession("n0");
  h.SayWritten("n1", "a", 1, 20, {1});
  h.Pass(20, {"n1"});
  v1::AgentMessage missing = RankOneIsMissing();
  missing.mutable_hang()->set_rank(0);
  missing.mutable_hang()->set_missing(0, 0);
  h.Say("n1", missing);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(11, {"n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AStepProvesThatTheRanksOfASilentNodeLive) {
  h.Run("a", {"n0", "n1"});
  for (int step = 1; step <= 60; ++step) {
    h.SayStep("n0", "a", 1, step);
    h.Pass(1, {"n0"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(31, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AnEpochWithASuccessorIsNotTakenBack) {
  h.Run("a", {"n0"});
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("a").epoch(), 2);  // begun on n1
  h.Take("n0");
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  EXPECT_EQ(h.LastWelcome("n0").keep_size(), 0);
  EXPECT_TRUE(h.Take("n0").back().has_stop());
}

TEST_F(TwoNodes, AnEpochWithoutASuccessorIsTakenBack) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.SayStep("n0", "b", 1, 7);
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("b").restarts_without_progress(), 1);
  h.Take("n0");
  h.Reconnect("n0", {Held("b", 1, {0}, true)});
  EXPECT_EQ(h.LastWelcome("n0").keep_size(), 1);
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("b").epoch(), 1);
  EXPECT_EQ(h.Job("b").step(), 7);
  EXPECT_EQ(h.Job("b").restarts_without_progress(), 0);
  EXPECT_EQ(h.Job("b").events(1).cause(), "taken_back");
  EXPECT_EQ(h.Job("b").events(0).lost_steps(), 0);
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  h.SayCommit("n0", "b", 1, 10, "m10");
  EXPECT_EQ(h.Job("b").checkpoint().step(), 10);
}

TEST_F(TwoNodes, AnEpochIsTakenBackByAHeartbeatInTheSameSessionToo) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RECOVERING);
  h.Take("n0");
  h.SayStep("n0", "b", 1, 9);
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("b").step(), 9);
  EXPECT_THAT(h.Take("n0"), IsEmpty());
}

TEST_F(TwoNodes, AnEpochThatWasGivenUpIsTakenBackUnderTheNextControllerToo) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RECOVERING);
  ASSERT_EQ(h.Job("b").restarts_without_progress(), 1);
  h.RestartController();
  h.Reconnect("n1", {Held("c", 1, {0}, true)});
  h.Join("n2");  // room for it: but first who may come back with it
  h.Pass(20, {"n1", "n2"});
  h.Take("n0");
  h.Reconnect("n0", {Held("b", 1, {0}, true)});
  EXPECT_EQ(h.LastWelcome("n0").keep_size(), 1);
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("b").epoch(), 1);
  EXPECT_EQ(h.Job("b").restarts_without_progress(), 0);
  h.RestartController();
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
}

TEST_F(TwoNodes, AnEpochThatWasGivenUpBeforeTheControllersStartIsWaitedForALease) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.Pass(31, {"n1"});
  h.RestartController();
  h.Reconnect("n1", {Held("c", 1, {0}, true)});
  h.Join("n2");
  h.Pass(31, {"n1", "n2"});
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("b").epoch(), 2);
}

TEST_F(TwoNodes, AnEpochThatIsTakenBackStopsForStepsThatHaveChangedSince) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RECOVERING);
  v1::Job changes;
  changes.mutable_spec()->mutable_train()->set_steps(200);
  ASSERT_TRUE(h.Update("b", changes, {"spec.train.steps"}).ok());
  h.Take("n0");
  h.Reconnect("n0", {Held("b", 1, {0}, true)});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  ASSERT_FALSE(h.Take("n0").empty());
  h.SayCommit("n0", "b", 1, 41, "m41");
  h.SayEnded("n0", "b", 1, testing::kInterrupted);
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("b").events(2).cause(), "updated");
}

// What has come and waits behind a slow commit is no silence.
TEST_F(TwoNodes, ANodeWhoseMessagesWaitToBeHandledIsNotSilent) {
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0"});
  h.Arrive("n1");
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  hang.mutable_epoch()->set_job("jobs/a");
  hang.mutable_epoch()->set_epoch(1);
  hang.set_rank(1);
  hang.add_missing(1);
  hang.set_tentative(true);
  h.Say("n0", message);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(3.5, {"n0"});
  h.Say("n0", message);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AnEpochWhoseNodeComesBackWithoutItsRanksIsNotTakenBack) {
  h.Run("b", {"n0"});
  h.Run("c", {"n1"});
  h.Pass(31, {"n1"});
  ASSERT_EQ(h.Job("b").state(), v1::Job::RECOVERING);
  h.Join("n0");
  h.Pass(2, {"n0", "n1"});
  EXPECT_EQ(h.Job("b").epoch(), 2);
  EXPECT_EQ(h.Job("b").restarts_without_progress(), 1);
}

}  // namespace
}  // namespace strata::controller
