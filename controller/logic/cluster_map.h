// The cluster as a tree, from what the controller was told of its levels and what nodes say of
// their places.
#ifndef STRATA_CONTROLLER_LOGIC_CLUSTER_MAP_H_
#define STRATA_CONTROLLER_LOGIC_CLUSTER_MAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/logic/cluster_state.h"
#include "proto/strata/v1/cluster.pb.h"
#include "topology/cluster.h"

namespace strata::controller {

// All nodes that have told their devices, by their short names (n0), with what is free now; those
// that take no new ranks are not healthy. Levels and links are state.map's. Where that has no
// levels: those of the nodes' localities (region, zone, rack, domain, then others by name), and a
// node that names no domain is one by itself.
topology::Description DescribeCluster(const ClusterState& state);

// Gives a map that names no levels those that the nodes' localities name.
void NameLevels(const NodeTable& nodes, topology::Description& map);
// Nothing of one that could not be made.
v1::Topology ToProto(const absl::StatusOr<topology::Cluster>& cluster);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_CLUSTER_MAP_H_
