// The whole simulated world: nodes, the controller, users, and how far each epoch's ranks are.
#ifndef STRATA_SIMULATION_CLUSTER_H_
#define STRATA_SIMULATION_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/simulator/events.h"
#include "simulation/oracle.h"
#include "simulation/planted_bug.h"
#include "simulation/random.h"
#include "simulation/sim_controller.h"
#include "simulation/sim_node.h"
#include "simulation/storage.h"

namespace strata::simulation {

// The ranks of one epoch compute in lockstep.
struct EpochWorld {
  int64_t step = 0;
  int ranks = 0;
  bool in_step = false;
  double moved_at = 0;
  bool moved = false;
  int64_t saved_step = 0;  // up to the one after it the disk may hold up anything
};

struct Options {
  uint64_t seed = 1;
  PlantedBug bug = PlantedBug::kNone;
  bool only_harmless = false;  // faults that may not interrupt training
  bool calm = false;           // no faults at all, but the next
  int die_at_commit = 0;       // the controller, at its n-th commit; 0: it need not
  bool die_after = false;
  bool trace = false;  // tell the story on stdout
};

class Cluster {
 public:
  explicit Cluster(const Options& options);

  // Empty: all invariants held. Otherwise what was violated, and when.
  std::string Run();

  // Ranks of the epoch come to life.
  void OnSpawn(const EpochKey& key, const v1::PrepareEpoch& prepare);
  void TryStep(const EpochKey& key);
  // Ranks on a node of that epoch vanished; the others' connections break or stall.
  void LosePeer(const EpochKey& key, const SimNode* where);

  simulator::Events events;
  Random random;
  Oracle oracle;
  const Options options;
  SimController controller;
  std::map<EpochKey, EpochWorld> epochs;
  std::map<std::string, Storage> storages;  // by jobs/NAME
  double step_seconds = 0.1;
  bool keeps_ends_on_disk = false;  // an agent's successor knows how epochs ended lately
  double faults_over_at = 0;

 private:
  void PlanPolicy();
  void Apply(const v1::Policy& policy);
  void PlanJobs();
  void PlanDrains();
  // Until it is acknowledged, or the operator wishes otherwise.
  void Drain(const std::string& node, bool drain);
  void AskToDrain(const std::string& node, bool drain, int wish);
  // An operator gives nodes in quarantine another chance.
  void ResumeQuarantined();
  void Submit(const v1::CreateJobRequest& request);
  void Cancel(const std::string& name);
  void PlanFaults();
  void PlanFault(double at);
  void HarmlessFault(double at);
  void HarshFault(double at);
  void PlanDamage();
  // Of a checkpoint that counts, and mostly a rank's death soon after, so that it is needed.
  void DamageCheckpoint(const std::string& job);
  void FinishStep(const EpochKey& key);
  // Whether all ranks are there and at work; the parts that there are.
  bool AllCompute(const EpochKey& key, std::vector<Part*>& parts);

  std::vector<std::unique_ptr<SimNode>> nodes_;
  int tensor_ = 1;  // ranks of a tensor group, of jobs that have any
  size_t unsubmitted_ = 0;
  bool policy_applied_ = false;  // and acknowledged: its queues are there
  int wish_ = 0;
  std::map<std::string, int> newest_wish_;  // by node
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_CLUSTER_H_
