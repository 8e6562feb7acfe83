// Agents and trainers as real processes, with a controller that does what the test says.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spec/job_file.h"
#include "spec/problems.h"
#include "tests/integration/fake_controller.h"

extern char** environ;

namespace strata::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kWaitSeconds = 60;  // for things that must happen at some time
constexpr char kJob[] = "jobs/tiny";

std::string Contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool Wait(const std::function<bool()>& condition, double seconds = kWaitSeconds) {
  for (int i = 0; i < seconds * 100; ++i) {
    if (condition()) return true;
    poll(nullptr, 0, 10);
  }
  return condition();
}

v1::JobEpoch Epoch(int64_t epoch) {
  v1::JobEpoch made;
  made.set_job(kJob);
  made.set_epoch(epoch);
  return made;
}

// Matchers of what agents say.
using Said = FakeController::Said;
using Matches = FakeController::Matches;

Matches EndedOf(const std::string& node, int64_t epoch) {
  return [=](const Said& said) {
    return said.node == node && said.message.has_ended() &&
           said.message.ended().epoch().epoch() == epoch;
  };
}
Matches PreparedOf(const std::string& node, int64_t epoch) {
  return [=](const Said& said) {
    return said.node == node && said.message.has_prepared() &&
           said.message.prepared().epoch().epoch() == epoch;
  };
}
Matches RunningOf(const std::string& node, int64_t epoch) {
  return [=](const Said& said) {
    return said.node == node && said.message.has_running() &&
           said.message.running().epoch().epoch() == epoch;
  };
}
Matches RegisterOf(const std::string& node) {
  return [=](const Said& said) { return said.node == node && said.message.has_register_(); };
}
Matches StepFrom(int64_t step) {
  return [=](const Said& said) {
    return said.message.has_progress() && said.message.progress().progress().has_step() &&
           said.message.progress().progress().step().step() >= step;
  };
}
Matches HangOf(const std::string& node) {
  return [=](const Said& said) { return said.node == node && said.message.has_hang(); };
}

using Nodes = std::map<std::string, std::vector<int>>;  // ranks by node

class AgentTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/agentXXXXXX";
    folder_ = fs::canonical(mkdtemp(name.data()));  // as processes see their own paths
    fs::create_directory(folder_ / "bin");
    // Beside each other, as they find one another.
    fs::copy_file("worker/agent/strata-worker", folder_ / "bin" / "strata-worker");
    fs::copy_file("worker/trainer/strata-trainer", folder_ / "bin" / "strata-trainer");
    std::ofstream text(folder_ / "text.txt");
    const char* const words[] = {"river", "stone", "light", "under", "every", "house", "water"};
    for (int i = 0; i < 6000; ++i) text << words[i * i % 7] << (i % 9 == 0 ? ".\n" : " ");
  }

  void TearDown() override {
    for (const auto& [node, pid] : agents_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (const pid_t pid : Trainers()) kill(pid, SIGKILL);
    controller_.reset();
    fs::remove_all(folder_);
  }

  void StartController(FakeController::Options options = {}) {
    controller_.reset();
    options.port = port_;
    controller_ = std::make_unique<FakeController>(options);
    port_ = controller_->port();
    ASSERT_NE(port_, 0);
    controller_->ExpectRanks(nodes_);
  }

  void StartAgent(const std::string& node, int devices = 1) {
    const std::string binary = (folder_ / "bin" / "strata-worker").string();
    std::vector<std::string> arguments = {binary,
                                          "--controller",
                                          absl::StrCat("127.0.0.1:", port_),
                                          "--node",
                                          node,
                                          "--dir",
                                          (folder_ / node).string(),
                                          "--devices",
                                          absl::StrCat(devices),
                                          "--threads-per-device",
                                          "1",
                                          "--locality",
                                          "zone=a"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    ASSERT_EQ(posix_spawn(&pid, binary.c_str(), nullptr, nullptr, argv.data(), environ), 0);
    agents_[node] = pid;
  }

  int EndAgent(const std::string& node, int number) {
    kill(agents_[node], number);
    int status = 0;
    waitpid(agents_[node], &status, 0);
    agents_.erase(node);
    return status;
  }

  // Live trainers of this test, in order of their ranks: those of `--rank` in their command line.
  std::vector<pid_t> Trainers() const {
    std::map<int, pid_t> found;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      const std::string command = Contents(entry.path() / "cmdline");
      if (!absl::StartsWith(command, (folder_ / "bin" / "strata-trainer").string())) continue;
      const std::string stat = Contents(entry.path() / "stat");
      const size_t name_end = stat.rfind(')');
      if (name_end == std::string::npos || stat.size() < name_end + 3) continue;
      if (strchr("ZX", stat[name_end + 2]) != nullptr) continue;
      const std::string mark = std::string("--rank") + '\0';
      int rank = -1;
      const size_t at = command.find(mark);
      if (at == std::string::npos) continue;
      if (absl::SimpleAtoi(command.c_str() + at + mark.size(), &rank)) found[rank] = pid;
    }
    std::vector<pid_t> pids;
    for (const auto& [rank, pid] : found) pids.push_back(pid);
    return pids;
  }

  v1::JobSpec Spec(int ranks, int steps, int every, const std::string& data = "") const {
    const std::string text = absl::StrCat(
        "model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: "
        "256}\n"
        "data: {train: [{path: ",
        data.empty() ? (folder_ / "text.txt").string() : data, "}]}\ntrain: {steps: ", steps,
        ", sequence: 64, global_batch: 8, micro_batch: 1, schedule: {warmup_steps: 5}}\n"
        "parallel: {data: ",
        ranks, ", shard: zero1, virtual_shards: 4}\ncheckpoint: {every_steps: ", every,
        ", keep: 3, directory: ", (folder_ / "job" / "checkpoints").string(), "}\n");
    spec::Problems problems("job.yaml");
    spec::ReadOptions options;
    options.default_name = "tiny";
    v1::JobSpec job = spec::ReadJob(text, options, problems).job;
    return job;
  }

  void Prepare(int64_t epoch, const v1::JobSpec& spec,
               const v1::CommittedCheckpoint* checkpoint = nullptr) {
    int ranks = 0;
    for (const auto& [node, own] : nodes_) ranks += static_cast<int>(own.size());
    for (const auto& [node, own] : nodes_) {
      v1::ControllerMessage message;
      v1::PrepareEpoch& prepare = *message.mutable_prepare();
      *prepare.mutable_epoch() = Epoch(epoch);
      *prepare.mutable_spec() = spec;
      prepare.set_directory((folder_ / "job").string());
      prepare.set_ranks(ranks);
      for (size_t i = 0; i < own.size(); ++i) {
        prepare.add_own(own[i]);
        prepare.add_devices(static_cast<int>(i));
      }
      if (checkpoint != nullptr) *prepare.mutable_checkpoint() = *checkpoint;
      controller_->Send(node, message);
    }
  }

  // Two phases; afterwards all ranks run.
  void RunEpoch(int64_t epoch, const v1::JobSpec& spec,
                const v1::CommittedCheckpoint* checkpoint = nullptr) {
    Prepare(epoch, spec, checkpoint);
    v1::ControllerMessage message;
    *message.mutable_start()->mutable_epoch() = Epoch(epoch);
    std::map<int, std::string> addresses;
    for (const auto& [node, own] : nodes_) {
      const auto prepared = controller_->WaitFor(PreparedOf(node, epoch), kWaitSeconds);
      ASSERT_TRUE(prepared.has_value()) << node;
      ASSERT_EQ(prepared->message.prepared().problem(), "");
      EXPECT_GT(prepared->message.prepared().plan().parameters(), 0);
      for (const auto& rank : prepared->message.prepared().ranks()) {
        addresses[rank.rank()] = rank.prepared().address();
      }
    }
    for (const auto& [rank, address] : addresses) message.mutable_start()->add_addresses(address);
    for (const auto& [node, own] : nodes_) controller_->Send(node, message);
    for (const auto& [node, own] : nodes_) {
      ASSERT_TRUE(controller_->WaitFor(RunningOf(node, epoch), kWaitSeconds).has_value()) << node;
    }
  }

  // Controller and agents, registered.
  void StartCluster(const Nodes& nodes, FakeController::Options options = {}) {
    nodes_ = nodes;
    StartController(options);
    for (const auto& [node, ranks] : nodes) {
      StartAgent(node, static_cast<int>(ranks.size()));
      ASSERT_TRUE(controller_->WaitFor(RegisterOf(node), kWaitSeconds).has_value()) << node;
    }
  }

  std::vector<nlohmann::json> Records() const {
    std::vector<nlohmann::json> records;
    std::istringstream lines(Contents(folder_ / "job" / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
      if (record.is_object()) records.push_back(std::move(record));
    }
    return records;
  }
  int64_t LastStep() const {
    const auto records = Records();
    return records.empty() ? 0 : records.back()["step"].get<int64_t>();
  }
  void ExpectStepsOnce(int64_t steps) const {
    const auto records = Records();
    ASSERT_EQ(static_cast<int64_t>(records.size()), steps);
    for (int64_t i = 0; i < steps; ++i) EXPECT_EQ(records[i]["step"], i + 1);
  }
  std::vector<double> Losses() const {
    std::vector<double> losses;
    for (const auto& record : Records()) losses.push_back(record["loss"].get<double>());
    return losses;
  }
  void Stop(int64_t epoch, bool checkpoint) {
    for (const auto& [node, ranks] : nodes_) {
      v1::ControllerMessage message;
      *message.mutable_stop()->mutable_epoch() = Epoch(epoch);
      message.mutable_stop()->set_checkpoint(checkpoint);
      message.mutable_stop()->set_reason("the test says so");
      controller_->Send(node, message);
    }
  }
  v1::EpochEnded EndOf(const std::string& node, int64_t epoch, double seconds = kWaitSeconds,
                       size_t from = 0) {
    const auto said = controller_->WaitFor(EndedOf(node, epoch), seconds, from);
    EXPECT_TRUE(said.has_value()) << node << " did not tell how epoch " << epoch << " ended";
    return said.has_value() ? said->message.ended() : v1::EpochEnded();
  }

  fs::path folder_;
  int port_ = 0;
  Nodes nodes_;
  std::unique_ptr<FakeController> controller_;
  std::map<std::string, pid_t> agents_;
};

constexpr int kLong = 100'000;  // steps that no test waits for

TEST_F(AgentTest, AJobOnOneNodeTrainsCommitsAndEnds) {
  StartCluster({{"n0", {0, 1}}});
  const auto registered = controller_->WaitFor(RegisterOf("n0"), 1);
  EXPECT_EQ(registered->message.register_().devices(), 2);
  EXPECT_EQ(registered->message.register_().locality().at("zone"), "a");
  EXPECT_NE(registered->message.incarnation(), 0u);
  RunEpoch(1, Spec(2, 12, 4));
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  EXPECT_EQ(ended.rank(), -1);
  ExpectStepsOnce(12);
  std::vector<int64_t> steps;
  for (const auto& checkpoint : controller_->Recorded()) {
    steps.push_back(checkpoint.step());
    EXPECT_EQ(checkpoint.epoch(), 1);
    EXPECT_TRUE(fs::exists(fs::path(checkpoint.path()) / "manifest.json")) << checkpoint.path();
    EXPECT_NE(checkpoint.manifest_digest(), "");
  }
  EXPECT_THAT(steps, ElementsAre(4, 8, 12));
  EXPECT_TRUE(Trainers().empty());
  const auto heartbeat = controller_->WaitFor(
      [](const Said& said) { return said.message.heartbeat().ranks_size() == 2; }, 1);
  ASSERT_TRUE(heartbeat.has_value());
  EXPECT_NE(heartbeat->message.heartbeat().ranks(0).phase(), "");
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
  EXPECT_TRUE(fs::is_empty(folder_ / "n0" / "epochs"));
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

TEST_F(AgentTest, AControllerThatIsAwayDisturbsNothing) {
  StartCluster({{"n0", {0, 1}}}, {.answer_commits = false});
  RunEpoch(1, Spec(2, 300, 20));
  const auto asked = [](const Said& said) { return said.message.has_commit(); };
  ASSERT_TRUE(controller_->WaitFor(asked, kWaitSeconds).has_value());
  const std::vector<pid_t> before = Trainers();
  controller_.reset();
  const int64_t step = LastStep();
  EXPECT_TRUE(Wait([&] { return LastStep() > step + 5; }));

  StartController({.term = 2});
  ASSERT_TRUE(controller_->WaitFor(RegisterOf("n0"), kWaitSeconds).has_value());
  const auto again = controller_->WaitFor(asked, kWaitSeconds);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->message.commit().checkpoint().step(), 20);
  EXPECT_EQ(Trainers(), before);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  ExpectStepsOnce(300);
  EXPECT_EQ(controller_->Recorded().size(), 15u);
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

TEST_F(AgentTest, AnAgentThatIsToldToStopEndsItsTrainers) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(2), kWaitSeconds).has_value());
  const int status = EndAgent("n0", SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(Trainers().empty());
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.cause(), "node_lost");
  EXPECT_THAT(ended.finished().message(), HasSubstr("was told to stop"));
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

TEST_F(AgentTest, AnOrderlyStopEndsAllNodesAfterOneStepWithACheckpoint) {
  StartCluster({{"n0", {0}}, {"n1", {1}}});
  RunEpoch(1, Spec(2, kLong, 0));
  ASSERT_TRUE(controller_->WaitFor(StepFrom(3), kWaitSeconds).has_value());
  Stop(1, true);
  int64_t last = 0;
  for (const auto& [node, ranks] : nodes_) {
    const auto stopping = controller_->WaitFor(
        [&, name = node](const Said& said) {
          return said.node == name && said.message.has_stopping();
        },
        kWaitSeconds);
    ASSERT_TRUE(stopping.has_value()) << node;
    last = std::max(last, stopping->message.stopping().step());
  }
  v1::ControllerMessage message;
  *message.mutable_stop_after()->mutable_epoch() = Epoch(1);
  message.mutable_stop_after()->set_step(last);
  for (const auto& [node, ranks] : nodes_) controller_->Send(node, message);
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

  std::ofstream(folder_ / "job" / "checkpoints") << "a file";
  Prepare(2, Spec(1, 3, 0));
  prepared = controller_->WaitFor(PreparedOf("n0", 2), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_THAT(prepared->message.prepared().problem(), HasSubstr("checkpoints"));
  EXPECT_TRUE(Trainers().empty());
}

}  // namespace
}  // namespace strata::integration
