// The cluster's tree as the scheduler sees it, and what is free of it: for readers on other
// threads.
#ifndef STRATA_CONTROLLER_LOGIC_SUPPLY_H_
#define STRATA_CONTROLLER_LOGIC_SUPPLY_H_

#include <map>
#include <memory>
#include <string>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::controller {

// Who lies where, of all nodes that count as the cluster's. Their health and free devices are those
// of when it was made.
struct ClusterTree {
  topology::Cluster cluster;
  std::map<std::string, int> index;  // by nodes/NAME
};

// As a decision of the scheduler left it.
struct Supply {
  std::shared_ptr<const ClusterTree> tree = std::make_shared<const ClusterTree>();
  scheduler::Occupancy free;  // of the tree's nodes: devices that a new rank may take
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SUPPLY_H_
