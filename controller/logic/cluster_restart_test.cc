// A cluster that is ended and started again, whole or with fewer nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/refusal.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using testing::kFailed;
using testing::kInterrupted;
using testing::TwoNodes;

void SayStoppedByAgent(Harness& h, const std::string& node, const std::string& job, int64_t epoch) {
  v1::AgentMessage message;
  v1::EpochEnded& ended = *message.mutable_ended();
  ended.mutable_epoch()->set_job("jobs/" + job);
  ended.mutable_epoch()->set_epoch(epoch);
  ended.mutable_finished()->set_outcome(v1::Finished::FAILED);
  ended.mutable_finished()->set_message("the agent of " + node + " was told to stop");
  ended.set_cause("node_lost");
  ended.set_rank(1);
  h.Say(node, std::move(message));
}

TEST_F(TwoNodes, RestartsOfTheWholeClusterUseUpNoneOfTheBudget) {
  h.Run("a", {"n0", "n1"});
  for (int64_t epoch = 1; epoch <= 8; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    Start("a");
    h.RestartController();
    h.Join("n0");
    h.Join("n1");
    h.Pass(1.5, {"n0", "n1"});
    ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING) << h.Job("a").reason();  // no back-off
    EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
    EXPECT_EQ(h.Job("a").events(static_cast<int>(epoch) - 1).cause(), "cluster_restart");
  }
  EXPECT_THAT(h.Job("a").events(0).reason(),
              HasSubstr("are gone, as was found when the controller had been restarted"));
}

void SayFoundDead(Harness& h, const std::string& node, int64_t epoch, int rank) {
  v1::AgentMessage message;
  v1::EpochEnded& ended = *message.mutable_ended();
  ended.mutable_epoch()->set_job("jobs/a");
  ended.mutable_epoch()->set_epoch(epoch);
  ended.mutable_finished()->set_outcome(v1::Finished::FAILED);
  ended.mutable_finished()->set_message(absl::StrCat("rank ", rank, " was killed in step 8"));
  ended.set_cause("trainer_died");
  ended.set_rank(rank);
  ended.set_found(true);
  h.Say(node, std::move(message));
}

TEST_F(TwoNodes, PowerCutsOfWhichTheAgentsFindRemainsUseUpNoneOfTheBudget) {
  h.Run("a", {"n0", "n1"});
  for (int64_t epoch = 1; epoch <= 8; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    if (epoch > 1) Start("a");
    h.RestartController();
    v1::HeldEpoch held = Held("a", epoch, {0}, true);
    held.set_step(7);
    h.Join("n0", {held});
    SayFoundDead(h, "n0", epoch, 0);
    h.Join("n1", {Held("a", epoch, {1}, true)});
    SayFoundDead(h, "n1", epoch, 1);
    h.Pass(1.5, {"n0", "n1"});
    ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING) << h.Job("a").reason();  // no back-off
    EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
    const v1::JobEvent& event = h.Job("a").events(static_cast<int>(epoch) - 1);
    EXPECT_EQ(event.cause(), "cluster_restart");
    EXPECT_EQ(event.lost_steps(), 7);
  }
  EXPECT_EQ(h.Job("a").events(0).reason(),
            "rank 0 was killed in step 8, as was found when the controller had been restarted");
  EXPECT_FALSE(h.Node("n0").quarantined());
}

TEST_F(TwoNodes, RanksAndAgentThatDieTogetherUnderALivingControllerCount) {
  h.Run("a", {"n0", "n1"});
  h.Join("n1", {Held("a", 1, {1}, true)});
  SayFoundDead(h, "n1", 1, 1);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  EXPECT_EQ(h.Job("a").events(0).cause(), "trainer_died");
}

TEST_F(TwoNodes, RanksThatDieUnderARestartedControllerCount) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {});
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 crashed", 1);  // while nobody was there to hear it
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  EXPECT_EQ(h.Job("a").events(0).cause(), "trainer_died");
}

TEST_F(TwoNodes, RanksThatAreGoneWhenTheirNodeComesBackTheSecondTimeCount) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  h.Join("n1");
  h.Pass(1.5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

v1::CreateJobRequest LimitedRequest(int64_t seconds) {
  v1::CreateJobRequest request = Harness::Request("a", 2);
  request.mutable_job()->mutable_spec()->mutable_time_limit()->set_seconds(seconds);
  return request;
}

TEST_F(TwoNodes, ATimeWithoutControllerAndRanksIsNoRunTime) {
  ASSERT_TRUE(h.Create(LimitedRequest(600)).ok());
  Start("a");
  h.Work(1000);
  h.RestartController();
  v1::HeldEpoch held = Held("a", 1, {0}, true);  // how it ended is still to be told
  h.Join("n0", {held});
  SayFoundDead(h, "n0", 1, 0);
  h.Join("n1");
  h.Pass(1.5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING) << h.Job("a").reason();
  Start("a");
  h.SayBeat("n0", "a", 2, 0, "");  // these did not train through it
  EXPECT_LT(h.core->ShowJob(h.Job("a")).run_time().seconds(), 60);
}

TEST_F(TwoNodes, ATimeWithoutControllerThatTheRanksTrainedThroughIsRunTime) {
  ASSERT_TRUE(h.Create(LimitedRequest(600)).ok());
  Start("a");
  h.Work(500);
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  h.SayBeat("n0", "a", 1, 0, "");
  h.SayBeat("n1", "a", 1, 1, "");
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.core->ShowJob(h.Job("a")).run_time().seconds(), 501);
  h.Take("n0");
  h.Pass(100, {"n0", "n1"});
  ASSERT_FALSE(h.Take("n0").empty());
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("out of time"));
}

TEST_F(TwoNodes, AStopForTimeIsOneUnderTheNextControllerToo) {
  ASSERT_TRUE(h.Create(LimitedRequest(60)).ok());
  Start("a");
  h.Pass(61, {"n0", "n1"});
  ASSERT_THAT(h.Job("a").reason(), HasSubstr("is being stopped: out of time (time_limit 1m)"));
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  h.SayStopping("n0", "a", 1, 41);
  h.SayStopping("n1", "a", 1, 40);
  EXPECT_EQ(h.Take("n1").back().stop_after().step(), 41);
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").events(0).cause(), "time_limit");
}

TEST_F(TwoNodes, AnAgentThatIsToldToStopUsesUpNoneOfTheBudget) {
  h.Run("a", {"n0", "n1"});
  SayStoppedByAgent(h, "n1", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, AnEchoOfAnOrderlyStopIsTakenBack) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n0", "a", 1, kFailed, "the connection to rank 1 broke", -1);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  SayStoppedByAgent(h, "n1", "a", 1);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Job("a").events(0).reason(), "the agent of n1 was told to stop");
}

TEST_F(TwoNodes, AnEndForWantOfProgressSaysEachReasonOnceWithItsEpochs) {
  h.Run("a", {"n0", "n1"});
  for (int64_t epoch = 1; epoch <= 4; ++epoch) {
    if (epoch > 1) Start("a");
    h.SayEnded("n0", "a", epoch, kFailed, epoch == 1 ? "no memory" : "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    h.Pass(0.5, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").reason(),
            "its ranks ended 4 times in a row without a new checkpoint "
            "(restart.max_without_progress); last: crash (epochs 2–4); before that: no memory");
}

TEST_F(TwoNodes, AJobWithoutRestartsEndsOnce) {
  v1::CreateJobRequest request = Harness::Request("a", 2);
  request.mutable_job()->mutable_spec()->mutable_restart()->set_max_without_progress(0);
  (void)h.Create(request);
  Start("a");
  h.SayEnded("n0", "a", 1, kFailed, "crash", 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("its ranks ended once without a new checkpoint"));
}

TEST_F(TwoNodes, ANodeThatIsNotStartedAgainHoldsNothingAfterItsLease) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Join("n0");
  h.Pass(20, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Node("n1").jobs_size(), 1);
  h.Pass(15, {"n0"});
  EXPECT_EQ(h.Node("n1").jobs_size(), 0);
  EXPECT_EQ(h.Node("n1").free(), 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  h.Join("n1", {Held("a", 1, {1}, true)});  // its clock was slow: what it holds blocks its device
  EXPECT_EQ(h.Node("n1").free(), 0);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
}

TEST_F(TwoNodes, NodesNotHeardOfSinceTheControllersStartCountForTheirLeaseOnly) {
  h.RestartController();
  h.Join("n0");
  h.Pass(20, {"n0"});
  ASSERT_TRUE(h.Create(Harness::Request("waits", 2)).ok());
  EXPECT_EQ(h.Job("waits").reason(), "waits for devices");
  h.Pass(20, {"n0"});
  const absl::Status status = h.Create(Harness::Request("late", 2)).status();
  EXPECT_EQ(ReasonOf(status), "INFEASIBLE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 2 devices of kind cpu"));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("; nearest: data 1 instead of 2: 1 of 2 ranks; away: n1: 1 device, not heard from "
                "since this controller's start at 2023-11-14 22:13:20 UTC"));
  EXPECT_EQ(h.Job("waits").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("waits").reason(), std::string(status.message()));
  h.RestartController();
  h.Join("n0");
  EXPECT_EQ(h.Job("waits").reason(), "waits for devices");
  h.Pass(40, {"n0"});
  EXPECT_THAT(h.Job("waits").reason(), HasSubstr("away: n1"));
  const std::string lines = absl::StrJoin(h.core->ExplainJob("jobs/waits")->lines(), "\n");
  EXPECT_EQ(lines.find("away: n1"), lines.rfind("away: n1"));  // said once
  h.Join("n1");
  EXPECT_EQ(h.Job("waits").state(), v1::Job::STARTING);
}

TEST_F(TwoNodes, ANodeLostUnderALivingControllerStillCounts) {
  h.EndSession("n1");
  h.Pass(60, {"n0"});
  EXPECT_TRUE(h.Create(Harness::Request("a", 2)).ok());
}

TEST_F(TwoNodes, NodesThatAreNotThereArePassedOver) {
  h.Join("n2");
  h.EndSession("n1");
  h.Pass(5, {"n0", "n2"});
  h.Run("a", {"n0", "n2"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  const std::string lines = absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n");
  EXPECT_THAT(lines, HasSubstr("is on n0 (rank 0), n2 (rank 1)"));
}

TEST(Schedule, AJobThatFitsStartsThoughManyBeforeItDoNot) {
  common::ManualClock clock;
  Core core(&clock);
  Effects effects;
  ASSERT_TRUE(core.Load({}, 1).ok());
  for (int i = 0; i < 500; ++i) {
    (void)core.CreateJob(Harness::Request(absl::StrCat("j", i), i < 250 ? 2 : 1), effects);
  }
  v1::AgentMessage message;
  message.set_incarnation(1);
  message.mutable_register_()->set_node("n0");
  message.mutable_register_()->set_device("cpu");
  message.mutable_register_()->set_devices(1);
  core.OnAgent(1, message, effects);
  EXPECT_EQ(core.FindJob("jobs/j250")->state(), v1::Job::STARTING);
}

TEST_F(TwoNodes, WhatNodesHoldIsKnownBeforeTheyAreHeardAgainAndAsTheyTellItLast) {
  h.SetMemory("n0", 64'000, 80'000);
  h.Join("n0");
  h.Join("n1");  // an agent of before, which tells nothing
  EXPECT_EQ(h.Node("n0").device_memory_bytes(), 80'000);
  h.RestartController();
  EXPECT_EQ(h.Node("n0").state(), v1::Node::UNKNOWN);
  EXPECT_EQ(h.Node("n0").host_memory_bytes(), 64'000);
  EXPECT_EQ(h.Node("n0").device_memory_bytes(), 80'000);
  EXPECT_EQ(h.Node("n1").host_memory_bytes(), 0);
  h.SetMemory("n0", 32'000, -1);
  h.Join("n0");
  EXPECT_EQ(h.Node("n0").host_memory_bytes(), 32'000);
  EXPECT_EQ(h.Node("n0").device_memory_bytes(), 0);
  h.RestartController();
  EXPECT_EQ(h.Node("n0").host_memory_bytes(), 32'000);
}

}  // namespace
}  // namespace strata::controller
