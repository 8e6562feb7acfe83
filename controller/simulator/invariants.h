// What must hold after every event. The world tells what really happens; the controller's records
// tell what it believes.
#ifndef STRATA_CONTROLLER_SIMULATOR_INVARIANTS_H_
#define STRATA_CONTROLLER_SIMULATOR_INVARIANTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/simulator/fleet.h"
#include "controller/simulator/training.h"
#include "topology/cluster.h"

namespace strata::simulator {

class Invariants {
 public:
  explicit Invariants(World& world) : world_(world) {}

  // The first thing that went wrong, and at which event; empty: nothing has.
  const std::string& violation() const { return violation_; }
  int64_t violation_event() const { return violation_event_; }
  int64_t full_checks() const { return full_checks_; }
  void Violate(const std::string& what);

  void OnFleet(const std::vector<SimNode>& nodes);
  // A job's record is durable: places of a new epoch obey the rules of placement.
  void OnChanged(const JobRun& job, const v1::JobRecord& record);
  // An epoch that nobody has heard of before: its checkpoint is the newest, and little is lost.
  void OnEpoch(const EpochRun& run);
  // Ranks begin to use devices, or have let go of one.
  void OnSpawn(int node, const Part& part, const EpochRun& run);
  void OnFree(int node, int device, const EpochRun& run);
  // All ranks, and nothing less.
  void OnTraining(const EpochRun& run);
  // The controller has accepted a checkpoint.
  void OnCommitted(const EpochRun& run, int64_t step);
  void OnControllerStart();

  // What takes too long for every event: everything against everything, and starvation.
  void CheckAll();
  // The first job of the queue, if it waits although it would fit.
  void CheckStarvation();

 private:
  void CheckRanks(const v1::JobRecord& record, bool anew);
  void CheckRecords();
  void CheckMemory();
  void CheckOrphans();

  World& world_;
  std::string violation_;
  int64_t violation_event_ = 0;
  int64_t full_checks_ = 0;
  topology::Cluster cluster_;                // as it really is
  std::vector<int> in_cluster_;              // the fleet's node -> the cluster's
  std::vector<std::vector<int64_t>> users_;  // epoch's number by node and device; 0: nobody
  std::set<std::pair<int64_t, int>> stale_;  // (epoch's number, node) at the last full check
  double controller_started_at_ = 0;
  std::string starving_;  // the first job of the queue, which would fit since …
  double starving_since_ = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_INVARIANTS_H_
