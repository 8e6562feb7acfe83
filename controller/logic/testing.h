// A core with a clock, a store and hand-driven agents, for tests of single transitions.
#ifndef STRATA_CONTROLLER_LOGIC_TESTING_H_
#define STRATA_CONTROLLER_LOGIC_TESTING_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/rng.h"
#include "controller/logic/core.h"
#include "protocol/versions.h"

namespace strata::controller::testing {

class Harness {
 public:
  Harness();

  // A job of that many cpu ranks and 100 steps.
  static v1::CreateJobRequest Request(const std::string& name, int ranks);

  // The controller dies and starts again with what was written.
  void RestartController();
  // Ticks as the daemon does; nodes named in `beating` send heartbeats.
  void Pass(double seconds, const std::vector<std::string>& beating = {});

  // So much time at once, of which only these nodes were silent (Core::OnHeard); then a tick.
  void PassHeard(double seconds, const std::vector<std::string>& silent);

  // The controller's process is stopped for so long.
  void StandStill(double seconds) {
    clock_.Advance(seconds);
    standstill_ += seconds;
  }
  // It works for so long, on a slow commit.
  void Work(double seconds) { clock_.Advance(seconds); }

  absl::StatusOr<v1::JobRecord> Create(const v1::CreateJobRequest& request);
  absl::StatusOr<v1::JobRecord> Cancel(const std::string& name, v1::CancelJobRequest request = {});
  absl::StatusOr<v1::JobRecord> Update(const std::string& name, const v1::Job& changes,
                                       const std::vector<std::string>& mask);
  absl::StatusOr<v1::JobRecord> Suspend(const std::string& name);
  absl::StatusOr<v1::JobRecord> Resume(const std::string& name);
  absl::Status Delete(const std::string& name, bool force = false);
  absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(const v1::Policy& policy,
                                                      bool validate_only = false);
  absl::StatusOr<v1::DrainNodesResponse> DrainTogether(const std::vector<std::string>& nodes);
  absl::StatusOr<v1::Node> Drain(const std::string& node, bool drain = true,
                                 const std::string& reason = "");
  absl::Status DeleteNode(const std::string& node);

  // A new agent process on the node, or (Reconnect) the same one with a new session.
  void Join(const std::string& node, const std::vector<v1::HeldEpoch>& held = {}, int devices = 1,
            const std::map<std::string, std::string>& locality = {});
  void Reconnect(const std::string& node, const std::vector<v1::HeldEpoch>& held);
  void EndSession(const std::string& node);
  // A message of it has come and waits (Core::OnArrived).
  void Arrive(const std::string& node) { core->OnArrived({SessionOf(node)}); }
  // What it says at its next Register.
  void SetBuild(const std::string& node, const std::string& build) { agents_[node].build = build; }
  void SetDevice(const std::string& node, const std::string& kind) { agents_[node].kind = kind; }
  void SetMemory(const std::string& node, int64_t host_bytes, int64_t device_bytes = 0) {
    agents_[node].host_memory = host_bytes;
    agents_[node].device_memory = device_bytes;
  }
  void SetProtocol(const std::string& node, int greatest) { agents_[node].protocol = greatest; }
  void Say(const std::string& node, v1::AgentMessage message);
  uint64_t SessionOf(const std::string& node) const { return agents_.at(node).session; }
  uint64_t IncarnationOf(const std::string& node) const { return agents_.at(node).incarnation; }

  // What agents say. `peers`: that the ranks name.
  void SayPrepared(const std::string& node, const std::string& job, int64_t epoch,
                   const std::vector<int>& ranks, const std::string& digest = "d",
                   const std::map<int, std::vector<int>>& peers = {});
  void SayProblem(const std::string& node, const std::string& job, int64_t epoch, bool permanent);
  void SayRunning(const std::string& node, const std::string& job, int64_t epoch);
  void SayStep(const std::string& node, const std::string& job, int64_t epoch, int64_t step);
  void SayEnded(const std::string& node, const std::string& job, int64_t epoch,
                v1::Finished::Outcome outcome, const std::string& reason = "", int rank = -1);
  void SayStopping(const std::string& node, const std::string& job, int64_t epoch, int64_t step);
  void SayWritten(const std::string& node, const std::string& job, int64_t epoch, int64_t step,
                  const std::vector<int>& ranks);
  void SayCommit(const std::string& node, const std::string& job, int64_t epoch, int64_t step,
                 const std::string& digest);
  // `missing`: a report of another node's ranks; otherwise of the node's own.
  void SayHang(const std::string& node, const std::string& job, int64_t epoch, int rank,
               const std::vector<int>& missing = {});
  void SayBeat(const std::string& node, const std::string& job, int64_t epoch, int rank,
               const std::string& phase);

  // Job `name` of one rank per node of `nodes`, which have joined: RUNNING.
  void Run(const std::string& name, const std::vector<std::string>& nodes);

  const v1::JobRecord& Job(const std::string& name) const { return *core->FindJob("jobs/" + name); }
  v1::Node Node(const std::string& name) const;
  // Takes the messages to that node since the last call, without Welcome.
  std::vector<v1::ControllerMessage> Take(const std::string& node);
  // The last Welcome to that node.
  v1::Welcome LastWelcome(const std::string& node) const { return welcomes_.at(node); }

  std::unique_ptr<Core> core;
  std::vector<v1::JobRecord> changed;
  std::vector<v1::JobRecord> deleted;
  std::vector<v1::Node> told_nodes;
  std::vector<v1::Node> deleted_nodes;
  std::vector<absl::Status> refused;  // sessions
  std::vector<Effects::Progress> progress;
  std::vector<Outgoing> dismissed;
  std::vector<Effects::Decision> decisions;
  std::map<std::pair<std::string, std::string>, Write> records;  // (table, key)

 private:
  struct Agent {
    uint64_t session = 0;
    uint64_t incarnation = 0;
    int devices = 1;
    std::string kind = "cpu";
    std::map<std::string, std::string> locality = {};
    std::string build = {};
    int protocol = protocol::kGreatest;
    int64_t host_memory = 0, device_memory = 0;
  };
  void Apply(const Effects& effects);
  template <typename Request>
  auto With(const Request& request) {
    Effects effects;
    auto result = request(effects);
    Apply(effects);
    return result;
  }
  void Register(const std::string& node, const std::vector<v1::HeldEpoch>& held);

  common::ManualClock clock_;
  // Each life of the controller draws other bits.
  common::Entropy entropy_ = [this] { return common::MixBits(7, ++last_bits_); };
  uint64_t last_bits_ = 0;
  double standstill_ = 0;  // since the last tick
  std::map<std::string, Agent> agents_;
  std::map<std::string, std::vector<v1::ControllerMessage>> inbox_;
  std::map<std::string, v1::Welcome> welcomes_;
  uint64_t last_number_ = 0;
};

v1::HeldEpoch Held(const std::string& job, int64_t epoch, const std::vector<int>& ranks,
                   bool running);

}  // namespace strata::controller::testing

#endif  // STRATA_CONTROLLER_LOGIC_TESTING_H_
