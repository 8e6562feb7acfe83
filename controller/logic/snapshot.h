// The cluster at one moment, for readers: immutable, so any thread reads it while the writer goes
// on. A new one shares all records that have not changed with the one before.
#ifndef STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_
#define STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/logic/shared_table.h"
#include "controller/logic/supply.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/policy.pb.h"
#include "proto/strata/v1/records.pb.h"
#include "scheduler/queue/queue.h"
#include "topology/cluster.h"

namespace strata::controller {

struct SnapshotNode {
  struct Holder {
    std::string job;  // jobs/NAME
    bool ending = false;
  };
  v1::Node shown;               // but for the time of its last heartbeat
  std::vector<int> free;        // devices that no epoch holds
  std::vector<Holder> holders;  // of the others
  bool usable = false;          // there, whether or not it takes ranks
  bool takes_ranks = false;
  bool away = false;         // see ClusterState::IsAway
  std::string left_out_for;  // the build that ranks are started with, and it has not
  std::shared_ptr<const std::atomic<double>> heard_wall;  // goes on changing; 0: never
};

struct BufferState {
  std::set<std::string> free;  // nodes/NAME: held back
  std::set<std::string> lent;  // likewise, to running jobs of preemptible queues
  int64_t missing = 0;         // nodes
};

struct Snapshot {
  struct JobKey {
    static const std::string& KeyOf(const v1::JobRecord& job) { return job.name(); }
  };
  struct NodeKey {
    static const std::string& KeyOf(const SnapshotNode& node) { return node.shown.name(); }
  };

  // Of a job in RECOVERING, what its record does not say.
  struct Recovery {
    double next_start_at = 0;  // its ranks are not started again before; on the clock of `now`
    bool claim_over = false;   // it no longer keeps the devices it had
  };
  using WaitingByJob = std::map<std::string, std::shared_ptr<const scheduler::Waiting>>;

  int64_t resource_version = 0;
  int64_t controller_term = 0;
  double wall = 0;                           // of the last tick
  double now = 0;                            // the same moment on the logic's clock
  double started_wall = 0;                   // the controller
  double restored_until = 0;                 // see ClusterState; on the clock of `now`
  std::shared_ptr<const v1::Policy> policy;  // complete
  SharedTable<v1::JobRecord, JobKey> jobs;
  SharedTable<SnapshotNode, NodeKey> nodes;
  std::shared_ptr<const std::vector<std::string>> node_order;  // topology order
  // Why jobs wait, by jobs/NAME, as of the last decision about each.
  std::shared_ptr<const WaitingByJob> waiting;
  std::shared_ptr<const std::map<std::string, Recovery>> recovering =  // by jobs/NAME
      std::make_shared<const std::map<std::string, Recovery>>();
  std::shared_ptr<const std::set<std::string>> awaited =  // jobs/NAME: ClusterState::IsAwaited
      std::make_shared<const std::set<std::string>>();
  std::shared_ptr<const Supply> supply;  // as of the last decision
  std::shared_ptr<const BufferState> buffer;
  std::shared_ptr<const topology::Description> map;  // levels and links, without nodes
};

// As users see them.
v1::Job ShowJob(const Snapshot& snapshot, const v1::JobRecord& job);
v1::Node ShowNode(const Snapshot& snapshot, const SnapshotNode& node);
v1::Topology ShowTopology(const Snapshot& snapshot);
v1::GetPolicyResponse ShowPolicy(const Snapshot& snapshot);

// Of the nodes of `supply`: devices that a new rank may take.
scheduler::Occupancy FreeNow(const Snapshot& snapshot);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_
