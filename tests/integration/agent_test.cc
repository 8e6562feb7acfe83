// The life of an epoch's ranks on their nodes, and what their deaths and standstills cause.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/agent_fixture.h"

namespace strata::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(AgentTest, AJobOnOneNodeTrainsCommitsAndEnds) {
  StartCluster({{"n0", {0, 1}}});
  const auto registered = controller_->WaitFor(RegisterOf("n0"), 1);
  EXPECT_EQ(registered->message.register_().devices(), 2);
  EXPECT_EQ(registered->message.register_().locality().at("zone"), "a");
  EXPECT_NE(registered->message.incarnation(), 0u);
  RunEpoch(1, Spec(2, 300, 100));  // longer than the time between two heartbeats
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  EXPECT_EQ(ended.rank(), -1);
  ExpectStepsOnce(300);
  std::vector<int64_t> steps;
  for (const auto& checkpoint : controller_->Recorded()) {
    steps.push_back(checkpoint.step());
    EXPECT_EQ(checkpoint.epoch(), 1);
    EXPECT_TRUE(fs::exists(fs::path(checkpoint.path()) / "manifest.json")) << checkpoint.path();
    EXPECT_NE(checkpoint.manifest_digest(), "");
  }
  EXPECT_THAT(steps, ElementsAre(100, 200, 300));
  EXPECT_TRUE(Trainers().empty());
  const auto heartbeat = controller_->WaitFor(
      [](const Said& said) { return said.message.heartbeat().ranks_size() == 2; }, 1);
  ASSERT_TRUE(heartbeat.has_value());
  EXPECT_NE(heartbeat->message.heartbeat().ranks(0).phase(), "");
}

TEST_F(AgentTest, ARankThatIsNotToldOfAPeerEndsAndNamesIt) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  Prepare(1, Spec(2, 40, 4));
  const auto prepared = controller_->WaitFor(PreparedOf("n0", 1), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  const v1::Prepared& own = prepared->message.prepared().ranks(0).prepared();
  EXPECT_FALSE(own.has_peers()) << "all ranks are";
  v1::ControllerMessage message;
  v1::StartEpoch& start = *message.mutable_start();
  *start.mutable_epoch() = Epoch(1);
  start.set_nonce(std::string(16, 'n'));
  start.add_ranks(0);
  v1::Addresses told;
  told.add_addresses(own.address());
  start.set_packed_addresses(told.SerializeAsString());
  controller_->Send("n0", message);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::FAILED);
  EXPECT_THAT(ended.finished().message(), HasSubstr("rank 0 was not given the address of rank 1"));
  Stop(1, false);
  EXPECT_EQ(EndOf("n1", 1).finished().outcome(), v1::Finished::FAILED);
}

TEST_F(AgentTest, AKilledTrainerIsNamedAndTheNextEpochGoesOnAsIfNothingHadHappened) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  RunEpoch(1, Spec(2, 40, 4));
  EXPECT_EQ(EndOf("n0", 1).finished().outcome(), v1::Finished::SUCCEEDED);
  EXPECT_EQ(EndOf("n1", 1).finished().outcome(), v1::Finished::SUCCEEDED);
  const std::vector<double> reference = Losses();
  fs::remove_all(folder_ / "job");

  size_t from = controller_->count();
  RunEpoch(2, Spec(2, 40, 4));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(6), kWaitSeconds, from).has_value());
  ASSERT_TRUE(Wait([&] { return controller_->Recorded().back().epoch() == 2; }));
  kill(Trainers().at(1), SIGKILL);
  const v1::EpochEnded died = EndOf("n1", 2);
  Stop(2, false);  // as a controller does
  const v1::EpochEnded stopped = EndOf("n0", 2);
  if (died.finished().outcome() == v1::Finished::SUCCEEDED) GTEST_SKIP() << "it was too fast";
  EXPECT_EQ(died.cause(), "trainer_died");
  EXPECT_EQ(died.rank(), 1);
  EXPECT_FALSE(died.echo());
  EXPECT_THAT(died.finished().message(), HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_EQ(stopped.finished().outcome(), v1::Finished::FAILED);
  EXPECT_EQ(stopped.rank(), -1);
  EXPECT_TRUE(Trainers().empty());

  const v1::CommittedCheckpoint checkpoint = controller_->Recorded().back();
  ASSERT_EQ(checkpoint.epoch(), 2);
  RunEpoch(3, Spec(2, 40, 4), &checkpoint);
  EXPECT_EQ(EndOf("n0", 3).finished().outcome(), v1::Finished::SUCCEEDED);
  ExpectStepsOnce(40);
  EXPECT_EQ(Losses(), reference);
  const auto records = Records();
  EXPECT_EQ(records[checkpoint.step() - 1]["epoch"], 2);
  EXPECT_EQ(records[checkpoint.step()]["epoch"], 3);
}

TEST_F(AgentTest, AStoppedTrainerIsReportedAndEnded) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const pid_t victim = Trainers().at(1);
  kill(victim, SIGSTOP);
  const auto hang = controller_->WaitFor(HangOf("n1"), kWaitSeconds);
  ASSERT_TRUE(hang.has_value());
  EXPECT_TRUE(hang->message.hang().local());
  EXPECT_EQ(hang->message.hang().rank(), 1);
  EXPECT_NE(hang->message.hang().instruction(), "");
  const v1::EpochEnded ended = EndOf("n1", 1);
  EXPECT_EQ(ended.cause(), "hang");
  EXPECT_EQ(ended.rank(), 1);
  Stop(1, false);  // as a controller does
  EXPECT_EQ(EndOf("n0", 1).rank(), -1);
  EXPECT_TRUE(Trainers().empty());
}

TEST_F(AgentTest, AFrozenNodeIsMissedByItsPeerAndEndsItsRanksWhenItWakes) {
  StartCluster({{"n0", {0}}, {"n1", {1}}}, {.keep_all = false});
  RunEpoch(1, Spec(2, kLong, 0));
  // Beyond the first windows of executions, which are slow.
  ASSERT_TRUE(controller_->WaitFor(StepFrom(40), kWaitSeconds).has_value());
  const pid_t victim = Trainers().at(1);
  kill(agents_["n1"], SIGSTOP);
  kill(victim, SIGSTOP);
  const auto hang = controller_->WaitFor(HangOf("n0"), kWaitSeconds);
  ASSERT_TRUE(hang.has_value());
  const v1::HangReport& report = hang->message.hang();
  EXPECT_FALSE(report.local());
  EXPECT_EQ(report.rank(), 1);
  EXPECT_NE(report.group(), "");
  EXPECT_NE(report.instruction(), "");
  EXPECT_GT(report.sequence(), 0u);
  EXPECT_THAT(report.waiting(), ElementsAre(0));
  EXPECT_THAT(report.missing(), ElementsAre(1));
  Stop(1, false);
  EXPECT_EQ(EndOf("n0", 1).cause(), "user");

  kill(victim, SIGCONT);
  kill(agents_["n1"], SIGCONT);
  EXPECT_EQ(EndOf("n1", 1).finished().outcome(), v1::Finished::FAILED);
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }));
}

TEST_F(AgentTest, KindsOfMessagesThatItDoesNotKnowEndNoSessionAndNoRanks) {
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, kLong, 0));
  v1::ControllerMessage later;
  later.GetReflection()->MutableUnknownFields(&later)->AddLengthDelimited(99, "of a later release");
  for (int i = 0; i < 3; ++i) controller_->Send("n0", later);
  ASSERT_TRUE(Wait([&] { return LastStep() > 0; }));
  const int64_t before = LastStep();
  ASSERT_TRUE(Wait([&] { return LastStep() > before + 10; }));
  const std::vector<Said> all = controller_->All();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), RegisterOf("n0")), 1);
  Stop(1, /*checkpoint=*/false);  // and what comes after them is heard
  EXPECT_NE(EndOf("n0", 1).finished().outcome(), v1::Finished::SUCCEEDED);
}

TEST_F(AgentTest, EpochsBelowTheHighestSeenAreRefused) {
  StartCluster({{"n0", {0}}});
  RunEpoch(5, Spec(1, 3, 0));
  EXPECT_EQ(EndOf("n0", 5).finished().outcome(), v1::Finished::SUCCEEDED);
  Prepare(4, Spec(1, 3, 0));
  const auto refused = controller_->WaitFor(PreparedOf("n0", 4), kWaitSeconds);
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->message.prepared().problem(), HasSubstr("epoch 4 comes after epoch 5"));
  EXPECT_FALSE(refused->message.prepared().permanent());
  EXPECT_TRUE(Trainers().empty());
}

TEST_F(AgentTest, AnOrderlyStopEndsAllNodesAfterOneStepWithACheckpoint) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(3), kWaitSeconds).has_value());
  const int64_t last = AskToStop(1);
  StopAfter(1, last);
  for (const auto& [node, ranks] : nodes_) {
    const v1::EpochEnded ended = EndOf(node, 1);
    EXPECT_EQ(ended.finished().outcome(), v1::Finished::INTERRUPTED) << ended.finished().message();
  }
  ExpectStepsOnce(last);
  ASSERT_EQ(controller_->Recorded().size(), 1u);
  EXPECT_EQ(controller_->Recorded()[0].step(), last);
}

TEST_F(AgentTest, ACheckpointThatWasRecordedAndNotRenamedIsFoundByTheNextEpoch) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, 8, 4));
  EXPECT_EQ(EndOf("n0", 1).finished().outcome(), v1::Finished::SUCCEEDED);
  const std::vector<double> reference = Losses();
  // As if rank 0 had died between the controller's record of step 4 and the renaming.
  const fs::path checkpoints = folder_ / "job" / "checkpoints";
  fs::create_directories(checkpoints / ".epoch-1");
  fs::rename(checkpoints / "step-00000004", checkpoints / ".epoch-1" / "step-00000004");
  fs::remove_all(checkpoints / "step-00000008");
  const v1::CommittedCheckpoint checkpoint = controller_->Recorded().front();
  ASSERT_EQ(checkpoint.step(), 4);
  RunEpoch(2, Spec(2, 8, 4), &checkpoint);
  EXPECT_EQ(EndOf("n0", 2).finished().outcome(), v1::Finished::SUCCEEDED);
  EXPECT_EQ(Losses(), reference);
  EXPECT_FALSE(fs::exists(checkpoints / ".epoch-1"));
}

TEST_F(AgentTest, WhatOnlyTheNodeCanSeeIsRefusedWithItsReason) {
  StartCluster({{"n0", {0}}});
  Prepare(1, Spec(1, 3, 0, (folder_ / "nowhere.txt").string()));
  auto prepared = controller_->WaitFor(PreparedOf("n0", 1), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_THAT(prepared->message.prepared().problem(), HasSubstr("nowhere.txt"));
  EXPECT_TRUE(prepared->message.prepared().permanent());
  Stop(1, false);
  EXPECT_EQ(EndOf("n0", 1).cause(), "start_failed");

  fs::remove_all(folder_ / "job" / "checkpoints");
  std::ofstream(folder_ / "job" / "checkpoints") << "a file";
  Prepare(2, Spec(1, 3, 0));
  prepared = controller_->WaitFor(PreparedOf("n0", 2), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_THAT(prepared->message.prepared().problem(), HasSubstr("checkpoints"));
  EXPECT_TRUE(Trainers().empty());
}

}  // namespace
}  // namespace strata::integration
