// Agents and controllers that go away and come back, and leases.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "tests/integration/agent_fixture.h"

namespace strata::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(AgentTest, TrainersTrainOnWithoutTheirAgentAndTheNextOneMissesNothing) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, 400, 20));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(30), kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  ASSERT_EQ(before.size(), 2u);
  const uint64_t incarnation = controller_->WaitFor(RegisterOf("n0"), 1)->message.incarnation();
  for (int round = 0; round < 3; ++round) {
    const size_t from = controller_->count();
    const int64_t step = LastStep();
    EndAgent("n0", SIGKILL);
    StartAgent("n0", 2);
    const auto again = controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, from);
    ASSERT_TRUE(again.has_value());
    if (LastStep() >= 380) break;  // it may be over before the third
    EXPECT_NE(again->message.incarnation(), incarnation);
    ASSERT_EQ(again->message.register_().held_size(), 1);
    const v1::HeldEpoch& held = again->message.register_().held(0);
    EXPECT_EQ(held.epoch().epoch(), 1);
    EXPECT_THAT(held.ranks(), ElementsAre(0, 1));
    EXPECT_TRUE(held.started());
    EXPECT_TRUE(held.running());
    ASSERT_TRUE(controller_->WaitFor(StepFrom(step + 20), kWaitSeconds, from).has_value());
    EXPECT_EQ(Trainers(), before);
  }
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  ExpectStepsOnce(400);
  std::set<int64_t> recorded;  // a request whose answer was lost comes twice
  for (const v1::CommittedCheckpoint& one : controller_->Recorded()) recorded.insert(one.step());
  EXPECT_EQ(recorded.size(), 20u);
  EXPECT_TRUE(Trainers().empty());
}

TEST_F(AgentTest, AnEndedEpochIsToldByTheNextAgentAndDoesNotDisturbTheOneThatRuns) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, 400, 20));
  ASSERT_TRUE(Wait([&] { return !controller_->Recorded().empty(); }));
  Stop(1, false);
  EXPECT_NE(EndOf("n0", 1).finished().outcome(), v1::Finished::SUCCEEDED);
  const v1::CommittedCheckpoint checkpoint = controller_->Recorded().back();
  RunEpoch(2, Spec(2, 400, 20), &checkpoint);
  const size_t from = controller_->count();
  EndAgent("n0", SIGKILL);
  StartAgent("n0", 2);
  EXPECT_NE(EndOf("n0", 1, kWaitSeconds, from).finished().outcome(), v1::Finished::SUCCEEDED);
  EXPECT_EQ(EndOf("n0", 2).finished().outcome(), v1::Finished::SUCCEEDED);
  ExpectStepsOnce(400);
}

TEST_F(AgentTest, ATrainerThatDiesWithoutAnAgentIsReportedByTheNextOne) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const std::vector<pid_t> trainers = Trainers();
  EndAgent("n0", SIGKILL);
  kill(trainers.at(1), SIGKILL);
  StartAgent("n0", 2);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::FAILED);
  EXPECT_EQ(ended.cause(), "trainer_died");
  EXPECT_EQ(ended.rank(), 1);
  EXPECT_THAT(ended.finished().message(), HasSubstr("rank 1 was killed"));
  EXPECT_TRUE(Trainers().empty());
}

TEST_F(AgentTest, ANodeWhoseAgentAndRanksWereKilledSaysThatItFoundThemAndHowFarTheyHadCome) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const std::vector<pid_t> trainers = Trainers();
  EndAgent("n0", SIGKILL);
  for (const pid_t trainer : trainers) kill(trainer, SIGKILL);
  ASSERT_TRUE(Wait([&] { return Trainers().empty(); }));
  const size_t from = controller_->count();
  StartAgent("n0", 2);
  const v1::EpochEnded ended = EndOf("n0", 1, kWaitSeconds, from);
  EXPECT_TRUE(ended.found());
  const auto again = controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, from);
  ASSERT_EQ(again->message.register_().held_size(), 1);
  EXPECT_GE(again->message.register_().held(0).step(), 5);
}

// The trainers look for their agent ten times a second, so the stop is there before them.
TEST_F(AgentTest, AStopThatComesBeforeTrainersHaveFoundTheNextAgentStillCommits) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const size_t from = controller_->count();
  EndAgent("n0", SIGKILL);
  StartAgent("n0", 2);
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, from).has_value());
  Stop(1, true);
  const v1::EpochEnded ended = EndOf("n0", 1, kWaitSeconds, from);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::INTERRUPTED) << ended.finished().message();
  ASSERT_EQ(controller_->Recorded().size(), 1u);
  EXPECT_EQ(controller_->Recorded()[0].step(), LastStep());
}

// One agent restarts between the two halves of a stop, and hears both again before its rank does.
TEST_F(AgentTest, AnAgentThatRestartsBetweenTheHalvesOfAStopLosesNoCheckpoint) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(3), kWaitSeconds).has_value());
  const int64_t last = AskToStop(1);
  const size_t from = controller_->count();
  EndAgent("n1", SIGKILL);
  StartAgent("n1");
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n1"), kWaitSeconds, from).has_value());
  Stop(1, true);
  StopAfter(1, last);
  for (const auto& [node, ranks] : nodes_) {
    const v1::EpochEnded ended = EndOf(node, 1);
    EXPECT_EQ(ended.finished().outcome(), v1::Finished::INTERRUPTED) << ended.finished().message();
  }
  ASSERT_EQ(controller_->Recorded().size(), 1u);
  EXPECT_EQ(controller_->Recorded()[0].step(), last);
}

// Two checkpoints may wait for their records; only the third would hold the training back.
TEST_F(AgentTest, AControllerThatIsAwayDisturbsNothing) {
  StartCluster({{"n0", {0, 1}}}, {.answer_commits = false});
  RunEpoch(1, Spec(2, 600, 200));
  const auto asked = [](const Said& said) { return said.message.has_commit(); };
  ASSERT_TRUE(controller_->WaitFor(asked, kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  const int64_t step = std::min<int64_t>(LastStep(), 500);  // however fast they are
  controller_.reset();
  EXPECT_TRUE(Wait([&] { return LastStep() > step + 50; }));

  StartController({.term = 2});
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds).has_value());
  const auto again = controller_->WaitFor(asked, kWaitSeconds);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->message.commit().checkpoint().step(), 200);
  EXPECT_EQ(Trainers(), before);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  ExpectStepsOnce(600);
  EXPECT_EQ(controller_->Recorded().size(), 3u);
}

TEST_F(AgentTest, AnEndThatNobodyHeardIsToldToTheNextController) {
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, 60, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  kill(Trainers().at(0), SIGSTOP);  // holds it back until nobody is there
  controller_.reset();
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }));
  StartController({.term = 2});
  const auto registered = controller_->WaitFor(RegisterOf("n0"), kWaitSeconds);
  ASSERT_TRUE(registered.has_value());
  ASSERT_EQ(registered->message.register_().held_size(), 1);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.cause(), "hang");
  EXPECT_EQ(ended.rank(), 0);
}

TEST_F(AgentTest, AControllerOfAnEarlierTermIsNotHeard) {
  StartCluster({{"n0", {0}}}, {.term = 5});
  const auto beats = [](const Said& said) { return said.message.has_heartbeat(); };
  ASSERT_TRUE(controller_->WaitFor(beats, kWaitSeconds).has_value());
  StartController({.term = 4});
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds).has_value());
  // It is registered with again and again, and gets nothing else.
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, 1).has_value());
  for (const Said& said : controller_->All()) EXPECT_TRUE(said.message.has_register_());
  EndAgent("n0", SIGKILL);
  StartAgent("n0");  // it is on disk
  const size_t from = controller_->count();
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, from).has_value());
  for (const Said& said : controller_->All()) EXPECT_TRUE(said.message.has_register_());
  StartController({.term = 6});
  EXPECT_TRUE(controller_->WaitFor(beats, kWaitSeconds).has_value());
}

TEST_F(AgentTest, NoTrainerOutlivesItsLease) {
  StartCluster({{"n0", {0}}, {"n1", {1}}}, {.lease_seconds = 2});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const int64_t step = LastStep();
  EndAgent("n0", SIGKILL);
  EndAgent("n1", SIGKILL);
  EXPECT_EQ(Trainers().size(), 2u);
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }));
  EXPECT_LE(LastStep(), step + 1);  // nobody was there to publish
}

TEST_F(AgentTest, AnAgentThatStandsStillDoesNotKeepItsTrainersBeyondTheLease) {
  StartCluster({{"n0", {0}}}, {.lease_seconds = 2});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  kill(agents_["n0"], SIGSTOP);
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }));
  kill(agents_["n0"], SIGCONT);
  EXPECT_EQ(EndOf("n0", 1).finished().outcome(), v1::Finished::FAILED);
}

TEST_F(AgentTest, AgentsWithoutAControllerEndTheirTrainersAfterAWhile) {
  StartCluster({{"n0", {0}}}, {.orphan_seconds = 1});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  controller_.reset();
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }));
  StartController({.term = 2});
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.cause(), "node_lost");
  EXPECT_THAT(ended.finished().message(), HasSubstr("without a controller"));
}

// The controller is away while the next agent starts: what the ranks tell it waits for its welcome.
TEST_F(AgentTest, TrainersOutliveAnAgentThatIsToldToStopAndNoStepIsLost) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, 400, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  ASSERT_EQ(before.size(), 2u);
  controller_.reset();
  const int status = EndAgent("n0", SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Trainers(), before);
  StartAgent("n0", 2);
  poll(nullptr, 0, 500);  // both ranks have found it
  EXPECT_EQ(Trainers(), before);
  StartController({.term = 2});
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  ExpectStepsOnce(400);
}

TEST_F(AgentTest, AnAgentThatHandsOverSaysSoAsItsLastWord) {
  StartCluster({{"n0", {0, 1}}});
  const auto beats = [](const FakeController::Said& word) { return word.message.has_heartbeat(); };
  ASSERT_TRUE(controller_->WaitFor(beats, kWaitSeconds).has_value());
  const int status = EndAgent("n0", SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto said = [](const FakeController::Said& word) {
    return word.message.has_handing_over();
  };
  ASSERT_TRUE(controller_->WaitFor(said, kWaitSeconds).has_value());
  EXPECT_TRUE(said(controller_->All().back()));
}

TEST_F(AgentTest, AnAgentAskedToStopEndsItsTrainersAndItselfAndAnswers) {
  StartCluster({{"n0", {0, 1}}});
  EXPECT_EQ(AskToEnd("n1", "60"), 1);  // nobody lives there
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  ASSERT_EQ(Trainers().size(), 2u);
  EXPECT_EQ(AskToEnd("n0", "60"), 0);
  EXPECT_TRUE(Trainers().empty());
  int status = 0;
  waitpid(agents_["n0"], &status, 0);
  agents_.erase("n0");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(EndOf("n0", 1).cause(), "node_lost");
  const size_t from = controller_->count();
  StartAgent("n0", 2);
  const auto back = controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, from);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->message.register_().held_size(), 0);
}

// Whoever asked ends it by a signal.
TEST_F(AgentTest, AnAgentThatStandsStillDoesNotAnswer) {
  StartCluster({{"n0", {0}}});
  kill(agents_["n0"], SIGSTOP);
  EXPECT_EQ(AskToEnd("n0", "0.2"), 1);
  kill(agents_["n0"], SIGCONT);
}

// In use at once, also by trainers that run: without their agent they end after the new lease.
TEST_F(AgentTest, ALeaseThatIsMadeShorterIsThatOfTrainersThatRun) {
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  v1::ControllerMessage message;
  message.mutable_timing()->mutable_timing()->set_lease_seconds(1);
  controller_->Send("n0", message);
  const fs::path records = folder_ / "n0" / "epochs";
  const auto kept = [&] {
    v1::HeldEpochRecord record;
    return record.ParseFromString(Contents(fs::directory_iterator(records)->path())) &&
           record.timing().lease_seconds() == 1;
  };
  ASSERT_TRUE(Wait(kept));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(LastStep() + 2), kWaitSeconds).has_value());
  EndAgent("n0", SIGKILL);
  EXPECT_EQ(Trainers().size(), 1u);
  EXPECT_TRUE(Wait([&] { return Trainers().empty(); }, 25));  // less than the lease it began with
}

TEST_F(AgentTest, AnAgentToldToDrainAsksForItAndGoesWhenItHoldsNothing) {
  agent_flags_ = {"--on-sigterm", "drain"};
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  kill(agents_["n0"], SIGTERM);
  const auto leaves = [](const Said& said) { return said.message.has_leaving(); };
  ASSERT_TRUE(controller_->WaitFor(leaves, kWaitSeconds).has_value());
  ASSERT_TRUE(controller_->WaitFor(StepFrom(LastStep() + 2), kWaitSeconds).has_value());
  Stop(1, true);
  int status = 0;
  waitpid(agents_["n0"], &status, 0);
  agents_.erase("n0");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(EndOf("n0", 1).finished().outcome(), v1::Finished::INTERRUPTED);
  EXPECT_EQ(controller_->Recorded().size(), 1u);
}

bool Beats(const Said& said) { return said.message.has_heartbeat(); }

TEST_F(AgentTest, AnImpostorOfAnotherClusterWithAHugeTermLosesNothing) {
  const FakeController::Options ours = {.term = 5, .cluster = "ours", .store = "s"};
  StartCluster({{"n0", {0}}}, ours);
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  StartController({.term = int64_t{1} << 62, .keep_all = false, .cluster = "theirs"});
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds).has_value());
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, 1).has_value());
  for (const Said& said : controller_->All()) EXPECT_TRUE(said.message.has_register_());
  StartController(ours);
  EXPECT_TRUE(controller_->WaitFor(Beats, kWaitSeconds).has_value());
  EXPECT_EQ(Trainers(), before);
}

TEST_F(AgentTest, ARestoredControllerIsHeardWithItsLowerTermAndTheReplacedOneNoMore) {
  StartCluster({{"n0", {0}}}, {.term = 50, .cluster = "ours", .store = "s"});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  StartController({.term = 3, .cluster = "ours", .store = "s2", .earlier_stores = {"s"}});
  ASSERT_TRUE(controller_->WaitFor(Beats, kWaitSeconds).has_value());
  EXPECT_EQ(Trainers(), before);
  StartController({.term = 51, .keep_all = false, .cluster = "ours", .store = "s"});
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds).has_value());
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds, 1).has_value());
  EXPECT_FALSE(controller_->WaitFor(Beats, 0.5).has_value());
  EXPECT_EQ(Trainers(), before);
}

// Meanwhile the job goes on elsewhere, in a later epoch, which publishes.
TEST_F(AgentTest, ARestartedAgentWithoutAControllerLeavesTheRecordsOfALaterEpochAlone) {
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(5), kWaitSeconds).has_value());
  controller_.reset();
  EndAgent("n0", SIGKILL);
  const fs::path published = folder_ / "job" / "metrics.jsonl";
  const std::string later = "{\"step\":1,\"epoch\":2}\n{\"step\":2,\"epoch\":2}\n";
  std::ofstream(folder_ / "later") << later;
  fs::rename(folder_ / "later", published);
  StartAgent("n0");
  poll(nullptr, 0, 1500);
  EXPECT_EQ(Trainers().size(), 1u);
  EXPECT_EQ(Contents(published), later);
  StartController({.term = 2, .keep_all = false});
  EXPECT_EQ(EndOf("n0", 1).cause(), "user");
  EXPECT_EQ(Contents(published), later);
}

TEST_F(AgentTest, ADismissedAgentLeavesItsTrainersToItsSuccessor) {
  StartCluster({{"n0", {0}}});
  RunEpoch(1, Spec(1, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  v1::ControllerMessage message;
  message.mutable_dismiss()->set_reason("another one");
  controller_->Send("n0", message);
  int status = 0;
  waitpid(agents_["n0"], &status, 0);
  agents_.erase("n0");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(Trainers(), before);
  const size_t from = controller_->count();
  StartAgent("n0");
  ASSERT_TRUE(controller_->WaitFor(StepFrom(LastStep() + 5), kWaitSeconds, from).has_value());
  EXPECT_EQ(Trainers(), before);
}

}  // namespace
}  // namespace strata::integration
