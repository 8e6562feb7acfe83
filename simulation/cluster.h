// The whole simulated world: nodes, the controller, users, and how far each epoch's ranks are.
#ifndef STRATA_SIMULATION_CLUSTER_H_
#define STRATA_SIMULATION_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "controller/simulator/events.h"
#include "simulation/operations.h"
#include "simulation/oracle.h"
#include "simulation/planted_bug.h"
#include "simulation/sim_controller.h"
#include "simulation/sim_node.h"
#include "simulation/sim_process.h"
#include "simulation/storage.h"

namespace strata::simulation {

// The ranks of one epoch compute in lockstep.
struct EpochWorld {
  std::map<int, SimProcess*> members;  // by rank; those that are there
  v1::JobSpec spec;
  int64_t step = 0;
  int ranks = 0;
  bool in_step = false;
  double moved_at = 0;
  bool moved = false;
};

struct Options {
  uint64_t seed = 1;
  PlantedBug bug = PlantedBug::kNone;
  bool only_harmless = false;  // faults that may not interrupt training
  bool calm = false;           // no faults at all, but the next
  int die_at_commit = 0;       // the controller, at its n-th commit; 0: it need not
  bool die_after = false;
  bool trace = false;            // tell the story on stdout
  std::string* story = nullptr;  // or there
  int nodes = 0;  // so many, of one device each, and nothing is planned: a test says what happens
  // Are told what a node (NAME) says to the controller, and what it hears, if they are there.
  std::function<void(const std::string&, const v1::AgentMessage&)> on_said = nullptr;
  std::function<void(const std::string&, const v1::ControllerMessage&)> on_heard = nullptr;
};

class Cluster {
 public:
  explicit Cluster(const Options& options);

  // Empty: all invariants held. Otherwise what was violated, and when.
  std::string Run();

  // Ranks of the epoch come to life.
  void OnSpawn(const EpochKey& key, const v1::PrepareEpoch& prepare);
  // One of them knows all addresses: when all do, they connect.
  void OnStarted(const EpochKey& key);
  void TryStep(const EpochKey& key);
  // A rank is gone, or as good as: the others' connections break or stall.
  void OnExit(const SimProcess& rank, bool abrupt);
  void LosePeers(const SimProcess& rank);
  // A checkpoint gets its final name.
  void OnPublish(const EpochKey& key, int64_t step);
  static v1::RecordedCheckpoint CheckpointOf(const EpochKey& key, int64_t step);
  // How long a job's storage still stands still; seconds.
  double StallOf(const std::string& job) { return storages[job].StallAt(events.Now()); }
  int64_t NextPid() { return ++last_pid_; }
  const std::vector<std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  bool harmless() const { return options.only_harmless || options.calm; }
  void Tell(const std::string& what) const { controller.Tell(what); }

  simulator::Events events;
  common::Random random;
  Oracle oracle;
  const Options options;
  SimController controller;
  std::map<EpochKey, EpochWorld> epochs;
  std::map<std::string, Storage> storages;       // by jobs/NAME
  std::map<std::string, int64_t> epoch_folders;  // the one that is there, by jobs/NAME
  std::map<std::string, int64_t> first_steps;    // of a planted bug: by uid
  double step_seconds = 0.1;
  double faults_over_at = 0;

 private:
  void AddNode(int devices, const std::string& domain);
  void Begin();
  v1::Policy PlanPolicy();
  void Apply(const v1::Policy& policy);
  void PlanJobs();
  void PlanDrains();
  // Until it is acknowledged, or the operator wishes otherwise.
  void Drain(const std::string& node, bool drain);
  void AskToDrain(const std::string& node, bool drain, int wish);
  // An operator looks after nodes in quarantine, and at last after all that keeps jobs from their
  // end.
  void Tend();
  void Submit(const v1::CreateJobRequest& request);
  void Cancel(const std::string& name);
  void PlanFaults();
  void PlanFault(double at);
  void HarmlessFault(double at);
  void HarshFault(double at);
  // One that is allowed to cost steps of jobs on that node, until then.
  void HarmNode(double at, double until, SimNode* node, void (*what)(SimNode&, double));
  // No node, or not all of them, can talk with the controller.
  void CutOff(double at, double seconds, bool all);
  void HarmStorage(double at);
  void PlanDamage();
  // Of a checkpoint that counts, and mostly a rank's death soon after, so that it is needed.
  void DamageCheckpoint(const std::string& job);
  void FinishStep(const EpochKey& key);

  std::vector<std::unique_ptr<SimNode>> nodes_;
  Operations operations_{*this};
  int64_t last_pid_ = 0;
  // Of a run's harmless faults. A silent node whose ranks are waited for counts as lost, and what
  // cuts off all nodes for longer than a lease is no fault of a node as long as none comes and
  // goes.
  enum class Weather { kPartitions, kStorage, kIsolation };
  Weather weather_ = Weather::kPartitions;
  int tensor_ = 1;  // ranks of a tensor group, of jobs that have any
  size_t unsubmitted_ = 0;
  bool policy_applied_ = false;  // and acknowledged: its queues are there
  int wish_ = 0;
  std::map<std::string, int> newest_wish_;  // by node
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_CLUSTER_H_
