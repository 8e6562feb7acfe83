// Agents and trainers as real processes, with a controller that does what the test says.
#ifndef STRATA_TESTS_INTEGRATION_AGENT_FIXTURE_H_
#define STRATA_TESTS_INTEGRATION_AGENT_FIXTURE_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/strata/v1/agent.pb.h"
#include "tests/integration/fake_controller.h"

namespace strata::integration {

inline constexpr double kWaitSeconds = 60;  // for things that must happen at some time
inline constexpr char kJob[] = "jobs/tiny";
inline constexpr int kLong = 100'000;  // steps that no test waits for

// Matchers of what agents say.
using Said = FakeController::Said;
using Matches = FakeController::Matches;
using Nodes = std::map<std::string, std::vector<int>>;  // ranks by node

std::string Contents(const std::filesystem::path& path);
bool Wait(const std::function<bool()>& condition, double seconds = kWaitSeconds);
v1::JobEpoch Epoch(int64_t epoch);
Matches EndedOf(const std::string& node, int64_t epoch);
Matches PreparedOf(const std::string& node, int64_t epoch);
Matches RunningOf(const std::string& node, int64_t epoch);
Matches RegisterOf(const std::string& node);
Matches StepFrom(int64_t step);
Matches HangOf(const std::string& node);

class AgentTest : public testing::Test {
 protected:
  void SetUp() override;

  void TearDown() override;

  void StartController(FakeController::Options options = {});

  void StartAgent(const std::string& node, int devices = 1);

  int EndAgent(const std::string& node, int number);
  // The exit code of `strata-worker stop`, which waits so long.
  int AskToEnd(const std::string& node, const std::string& seconds) const;

  // Live trainers of this test, in order of their ranks: those of `--rank` in their command line.
  std::vector<pid_t> Trainers() const;

  v1::JobSpec Spec(int ranks, int steps, int every, const std::string& data = "") const;

  void Prepare(int64_t epoch, const v1::JobSpec& spec,
               const v1::CommittedCheckpoint* checkpoint = nullptr);

  // Two phases; afterwards all ranks run.
  void RunEpoch(int64_t epoch, const v1::JobSpec& spec,
                const v1::CommittedCheckpoint* checkpoint = nullptr);

  // Controller and agents, registered.
  void StartCluster(const Nodes& nodes, FakeController::Options options = {});

  std::vector<nlohmann::json> Records() const;
  int64_t LastStep() const;
  void ExpectStepsOnce(int64_t steps) const;
  std::vector<double> Losses() const;
  void Stop(int64_t epoch, bool checkpoint);
  // The two halves of an orderly stop: what all nodes must reach, and that they end after it.
  int64_t AskToStop(int64_t epoch);
  void StopAfter(int64_t epoch, int64_t step);
  v1::EpochEnded EndOf(const std::string& node, int64_t epoch, double seconds = kWaitSeconds,
                       size_t from = 0);

  pid_t Spawn(std::vector<std::string> arguments) const;

  std::filesystem::path folder_;
  int port_ = 0;
  Nodes nodes_;
  std::unique_ptr<FakeController> controller_;
  std::map<std::string, pid_t> agents_;
  v1::PrepareEpoch more_;                 // what Prepare says beside what its arguments do
  std::vector<std::string> agent_flags_;  // further ones, of agents started from now on
};

}  // namespace strata::integration

#endif  // STRATA_TESTS_INTEGRATION_AGENT_FIXTURE_H_
