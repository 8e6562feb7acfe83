// Makes snapshots of the controller's state, copying only the records that changed.
#ifndef STRATA_CONTROLLER_LOGIC_SNAPSHOT_MAKER_H_
#define STRATA_CONTROLLER_LOGIC_SNAPSHOT_MAKER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "controller/logic/cluster_state.h"
#include "controller/logic/snapshot.h"

namespace strata::controller {

class SnapshotMaker {
 public:
  // The state as it is now; the same one as before when nothing has changed.
  std::shared_ptr<const Snapshot> Take(ClusterState& state);

 private:
  // What of a node is shown and may change without its record doing so.
  struct NodeSeen {
    size_t print = 0;
    std::shared_ptr<std::atomic<double>> heard_wall;
  };

  // Each tells whether it has changed anything.
  bool TakeJobs(ClusterState& state);
  bool TakeNodes(ClusterState& state);
  bool TakeWaiting(const ClusterState& state);
  bool TakeRecovering(const ClusterState& state);
  bool TakeMeta(ClusterState& state, bool decided);

  Snapshot next_;
  std::map<std::string, NodeSeen> seen_;  // by nodes/NAME
  std::shared_ptr<const Snapshot> last_;
  int64_t order_version_ = -1;  // NodeTable's, of node_order
  int64_t map_version_ = -1;    // the same, of map
  int64_t decisions_ = -1;
  int64_t policies_ = -1;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SNAPSHOT_MAKER_H_
