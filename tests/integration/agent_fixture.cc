#include "tests/integration/agent_fixture.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "spec/job_file.h"
#include "spec/problems.h"

extern char** environ;

namespace strata::integration {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool Wait(const std::function<bool()>& condition, double seconds) {
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

void AgentTest::SetUp() {
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

void AgentTest::TearDown() {
  for (const auto& [node, pid] : agents_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  for (const pid_t pid : Trainers()) kill(pid, SIGKILL);
  controller_.reset();
  fs::remove_all(folder_);
}

void AgentTest::StartController(FakeController::Options options) {
  controller_.reset();
  options.port = port_;
  controller_ = std::make_unique<FakeController>(options);
  port_ = controller_->port();
  ASSERT_NE(port_, 0);
  controller_->ExpectRanks(nodes_);
}

pid_t AgentTest::Spawn(std::vector<std::string> arguments) const {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  return pid;
}

int AgentTest::AskToEnd(const std::string& node, const std::string& seconds) const {
  const pid_t pid = Spawn({(folder_ / "bin" / "strata-worker").string(), "stop", "--dir",
                           (folder_ / node).string(), "--timeout", seconds});
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void AgentTest::StartAgent(const std::string& node, int devices) {
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
  arguments.insert(arguments.end(), agent_flags_.begin(), agent_flags_.end());
  agents_[node] = Spawn(std::move(arguments));
}

int AgentTest::EndAgent(const std::string& node, int number) {
  kill(agents_[node], number);
  int status = 0;
  waitpid(agents_[node], &status, 0);
  agents_.erase(node);
  return status;
}

std::vector<pid_t> AgentTest::Trainers() const {
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

v1::JobSpec AgentTest::Spec(int ranks, int steps, int every, const std::string& data) const {
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

void AgentTest::Prepare(int64_t epoch, const v1::JobSpec& spec,
                        const v1::CommittedCheckpoint* checkpoint) {
  int ranks = 0;
  for (const auto& [node, own] : nodes_) ranks += static_cast<int>(own.size());
  for (const auto& [node, own] : nodes_) {
    v1::ControllerMessage message;
    v1::PrepareEpoch& prepare = *message.mutable_prepare();
    prepare = more_;
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

void AgentTest::RunEpoch(int64_t epoch, const v1::JobSpec& spec,
                         const v1::CommittedCheckpoint* checkpoint) {
  Prepare(epoch, spec, checkpoint);
  v1::ControllerMessage message;
  *message.mutable_start()->mutable_epoch() = Epoch(epoch);
  message.mutable_start()->set_nonce(std::string(16, 'n'));
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
  v1::Addresses told;
  for (const auto& [rank, address] : addresses) {
    message.mutable_start()->add_ranks(rank);
    told.add_addresses(address);
  }
  message.mutable_start()->set_packed_addresses(told.SerializeAsString());
  for (const auto& [node, own] : nodes_) controller_->Send(node, message);
  for (const auto& [node, own] : nodes_) {
    ASSERT_TRUE(controller_->WaitFor(RunningOf(node, epoch), kWaitSeconds).has_value()) << node;
  }
}

void AgentTest::StartCluster(const Nodes& nodes, FakeController::Options options) {
  nodes_ = nodes;
  StartController(options);
  for (const auto& [node, ranks] : nodes) {
    StartAgent(node, static_cast<int>(ranks.size()));
    ASSERT_TRUE(controller_->WaitFor(RegisterOf(node), kWaitSeconds).has_value()) << node;
  }
}

std::vector<nlohmann::json> AgentTest::Records() const {
  std::vector<nlohmann::json> records;
  std::istringstream lines(Contents(folder_ / "job" / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

int64_t AgentTest::LastStep() const {
  const auto records = Records();
  return records.empty() ? 0 : records.back()["step"].get<int64_t>();
}

void AgentTest::ExpectStepsOnce(int64_t steps) const {
  const auto records = Records();
  ASSERT_EQ(static_cast<int64_t>(records.size()), steps);
  for (int64_t i = 0; i < steps; ++i) EXPECT_EQ(records[i]["step"], i + 1);
}

std::vector<double> AgentTest::Losses() const {
  std::vector<double> losses;
  for (const auto& record : Records()) losses.push_back(record["loss"].get<double>());
  return losses;
}

void AgentTest::Stop(int64_t epoch, bool checkpoint) {
  for (const auto& [node, ranks] : nodes_) {
    v1::ControllerMessage message;
    *message.mutable_stop()->mutable_epoch() = Epoch(epoch);
    message.mutable_stop()->set_checkpoint(checkpoint);
    message.mutable_stop()->set_reason("the test says so");
    controller_->Send(node, message);
  }
}

int64_t AgentTest::AskToStop(int64_t epoch) {
  const size_t from = controller_->count();
  Stop(epoch, true);
  int64_t last = 0;
  for (const auto& [node, ranks] : nodes_) {
    const auto stopping = controller_->WaitFor(
        [&, name = node](const Said& said) {
          return said.node == name && said.message.has_stopping();
        },
        kWaitSeconds, from);
    EXPECT_TRUE(stopping.has_value()) << node;
    if (stopping.has_value()) last = std::max(last, stopping->message.stopping().step());
  }
  return last;
}

void AgentTest::StopAfter(int64_t epoch, int64_t step) {
  v1::ControllerMessage message;
  *message.mutable_stop_after()->mutable_epoch() = Epoch(epoch);
  message.mutable_stop_after()->set_step(step);
  for (const auto& [node, ranks] : nodes_) controller_->Send(node, message);
}

v1::EpochEnded AgentTest::EndOf(const std::string& node, int64_t epoch, double seconds,
                                size_t from) {
  const auto said = controller_->WaitFor(EndedOf(node, epoch), seconds, from);
  EXPECT_TRUE(said.has_value()) << node << " did not tell how epoch " << epoch << " ended";
  return said.has_value() ? said->message.ended() : v1::EpochEnded();
}

}  // namespace strata::integration
