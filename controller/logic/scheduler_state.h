// What the controller keeps between two decisions of the scheduler.
#ifndef STRATA_CONTROLLER_LOGIC_SCHEDULER_STATE_H_
#define STRATA_CONTROLLER_LOGIC_SCHEDULER_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/logic/node_table.h"
#include "controller/logic/supply.h"
#include "planner/traffic.h"
#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::controller {

struct SchedulerState {
  // All nodes that count as the cluster's (ClusterState::IsAway: the others), and which is which:
  // nodes[i] is cluster.nodes()[i]. Made anew when the cluster has changed.
  topology::Cluster cluster;
  std::vector<NodeEntry*> nodes;
  std::shared_ptr<const ClusterTree> tree = std::make_shared<const ClusterTree>();  // the same
  bool made = false;

  // Shapes that were asked about since then: why none of the cluster's states holds them; empty:
  // one does.
  using Asked =
      std::tuple<planner::Degrees, std::string, std::vector<scheduler::TopologyConstraint>>;
  std::map<Asked, std::string> infeasible;

  bool retell = false;  // the cluster was made anew: what could run at all may have changed
  bool due = false;     // something has changed that decisions depend on
  double next_at = 0;   // not before, so that long queues do not take all of the time
  double decided_at = 0;
  int64_t decisions = 0;  // so many; why jobs wait changes with each
  // As the last decision left it: free devices by kind, and one by one; the least effective
  // priority of jobs that hold devices (absent: none does).
  std::map<std::string, int64_t> free;
  std::shared_ptr<const Supply> supply = std::make_shared<const Supply>();
  std::optional<int64_t> least_priority;
  // Of the last view: epochs that are over and still hold devices.
  std::map<EpochKey, scheduler::Shape> ending;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SCHEDULER_STATE_H_
