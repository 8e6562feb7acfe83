// The simulated nodes' agents: they speak the real protocol with the controller (agent.proto), one
// for each node, and stand for its trainers.
#ifndef STRATA_CONTROLLER_SIMULATOR_FLEET_H_
#define STRATA_CONTROLLER_SIMULATOR_FLEET_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/logic/effects.h"
#include "controller/simulator/training.h"

namespace strata::simulator {

struct World;

// What a node does for one epoch.
struct Part {
  enum class State { kPreparing, kPrepared, kLoading, kRunning, kEnding };
  EpochRun* run = nullptr;
  std::vector<int> ranks;
  std::vector<int> devices;
  State state = State::kPreparing;
};

struct SimNode {
  int index = 0;
  std::string name;  // NAME
  int devices = 0;
  std::string device;
  std::map<std::string, std::string> locality;
  int64_t host_memory_bytes = 0;  // another one's is another
  bool alive = false;             // it has power and an agent
  bool reachable = false;         // by the network
  uint64_t incarnation = 0;
  uint64_t session = 0;
  uint64_t life = 0;  // grows whenever it leaves or comes back: what was put off before is void
  std::vector<Part> parts;
  // Ends of epochs that the controller may not have heard of.
  std::vector<std::pair<double, v1::EpochEnded>> past;

  Part* Find(const EpochRun* run);
};

class Fleet {
 public:
  explicit Fleet(World& world) : world_(world) {}

  // All nodes join within the first moment.
  void Begin();
  std::vector<SimNode>& nodes() { return nodes_; }
  const std::vector<SimNode>& nodes() const { return nodes_; }

  // The controller's words arrive.
  void OnMessages(const std::vector<controller::Outgoing>& messages);
  // The controller can be reached again.
  void OnControllerStart();

  void Boot(SimNode& node);
  // Its agent ends in order: its trainers are gone and that is told.
  void Leave(SimNode& node, const std::string& cause);
  // Without a word.
  void PowerOff(SimNode& node);
  // Nobody hears it and it hears nobody, for so long.
  void Isolate(SimNode& node, double seconds);

  // Says what all parts of an epoch have to say at the same time.
  void SayPrepared(const EpochRun& run, const std::vector<int>& nodes);
  void SayRunning(const EpochRun& run);
  void SayWritten(const EpochRun& run, int64_t step);
  void SayCommit(const EpochRun& run, int64_t epoch, int64_t step);
  void SayHang(SimNode& node, const EpochRun& run, int rank, const std::vector<int>& missing,
               double seconds);
  // Trainers of a part are gone.
  void EndPart(SimNode& node, EpochRun& run, v1::Finished::Outcome outcome,
               const std::string& cause, int rank);
  void EndAll(EpochRun& run, v1::Finished::Outcome outcome);

  bool Hears(const SimNode& node) const {
    return node.alive && node.reachable && node.session != 0;
  }

 private:
  struct Batch;  // of messages that arrive at the same time, by epoch

  void Connect(SimNode& node);
  void Register(SimNode& node);
  std::string Told(int node, const std::string& level, const std::string& value) const;
  void Say(SimNode& node, v1::AgentMessage& message);
  void Handle(SimNode& node, const v1::ControllerMessage& message, Batch& batch);
  void OnWelcome(SimNode& node, const v1::Welcome& welcome);
  void SayFragments(SimNode& node, const Part& part, int64_t step);
  void RepeatWritten(SimNode& node, const Part& part);
  void OnPrepare(SimNode& node, const v1::PrepareEpoch& prepare, Batch& batch);
  void OnStart(SimNode& node, const v1::StartEpoch& start, Batch& batch);
  void OnStop(SimNode& node, const v1::StopEpoch& stop, Batch& batch);
  void SayEnded(SimNode& node, const v1::EpochEnded& ended);
  void SayGone(SimNode& node, const v1::JobEpoch& epoch);
  void CommitForOthers(SimNode& node, const v1::JobEpoch& epoch, int64_t step);
  // The part's devices are free, and nothing is said.
  void Vanish(SimNode& node, EpochRun& run);
  void LoseSession(SimNode& node);

  World& world_;
  std::vector<SimNode> nodes_;                    // in the order of the cluster's description
  std::unordered_map<std::string, int> by_name_;  // nodes/NAME; looked up only
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_FLEET_H_
