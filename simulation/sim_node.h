// A node: its devices, the processes on them, the disk, and the agent's process around the agent's
// real logic. Each of them may fail alone.
#ifndef STRATA_SIMULATION_SIM_NODE_H_
#define STRATA_SIMULATION_SIM_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "controller/logic/job_entry.h"
#include "simulation/link.h"
#include "simulation/sim_process.h"
#include "simulation/sim_trainer.h"
#include "worker/agent/logic/agent_core.h"

namespace strata::simulation {

// An agent's folder. It outlives its processes, and most of it the machine's.
struct NodeDisk {
  v1::AgentMembership membership;
  std::map<std::pair<std::string, int64_t>, v1::HeldEpochRecord> records;
  std::map<int64_t, std::shared_ptr<SimProcess>> processes;  // with their progress files, by pid
  double full_until = 0;
};

class SimNode final : public worker::AgentHost {
 public:
  // `domain`: of its locality; empty: it names none.
  SimNode(Cluster& cluster, int number, int devices, const std::string& domain);

  // Faults. Durations in seconds; everything comes back.
  void KillAgent(double back_after);
  void HandOver(double back_after);  // SIGTERM
  // The next agent process, at once if this one is awake, is of this release.
  void Upgrade(const std::string& build, const v1::ProtocolRange& range);
  // The machine is another one, of the same name.
  void Replace(double back_after);
  void Reboot(double back_after);
  void Freeze(double seconds, bool trainers);
  void KillTrainer();
  void HangTrainer();
  void StopTrainer();  // SIGSTOP
  void BreakSession();
  void Partition(double seconds, bool up, bool down);
  void FillDisk(double seconds);

  void Boot();
  std::string name() const;
  bool DiskFull() const;
  NodeDisk& disk() { return disk_; }

  // Something the agent's present process does; later if it is frozen, never if it is dead.
  void Agent(const std::function<void()>& what);
  // A process of this node.
  std::shared_ptr<SimProcess> Spawn(const EpochKey& key, int rank, int device);
  void OnExit(const SimProcess& process);
  // It looks for its agent.
  void OnHello(const std::shared_ptr<SimProcess>& process);

  // AgentHost
  std::unique_ptr<worker::EpochHost> OpenEpoch(const v1::PrepareEpoch& prepare) override;
  absl::Status SetMembership(const v1::AgentMembership& membership) override;
  void Send(uint64_t session, const v1::AgentMessage& message) override;
  void EndSession(uint64_t session) override;
  void Log(const std::string& text) override;

 private:
  void AgentAfter(double delay, std::function<void()> what);
  void RestartAgent();
  // What a planted bug makes of it.
  void Spoil(v1::AgentMessage& message) const;
  bool AgentAwake() const { return core_ != nullptr && !frozen_; }
  // The process is gone; `flushed`: what it said is with the transport.
  void EndAgent(double back_after, bool flushed);
  void Tick();
  void Connect();
  void Hear(const v1::ControllerMessage& message);
  void Wake(uint64_t life);
  std::shared_ptr<SimProcess> RandomRank();

  Cluster& cluster_;
  const int number_;
  const int devices_;
  const std::string domain_;
  NodeDisk disk_;

  std::unique_ptr<worker::AgentCore> core_;  // null: no agent lives
  bool frozen_ = false;
  uint64_t life_ = 0, boot_ = 1;
  std::string build_ = "b0";    // of the agent, as installed
  v1::ProtocolRange protocol_;  // likewise
  v1::ProtocolRange speaks_;    // the agent that lives
  double partitioned_until_ = 0;
  std::deque<std::function<void()>> put_off_;
  std::shared_ptr<Link> link_;
  uint64_t session_ = 0;
  std::map<EpochKey, int64_t> manifests_;  // of a planted bug
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_NODE_H_
