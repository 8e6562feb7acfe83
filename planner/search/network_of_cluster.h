// A described cluster as the performance model sees it.
#ifndef STRATA_PLANNER_SEARCH_NETWORK_OF_CLUSTER_H_
#define STRATA_PLANNER_SEARCH_NETWORK_OF_CLUSTER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/performance/machine.h"
#include "topology/cluster.h"

namespace strata::planner {

struct ClusterPart {
  std::string kind;  // of its devices
  int64_t devices = 0;
  Network network;
  std::string widest;  // the outermost level that links of the job cross: "zone"
};

// `devices` of one kind (the cluster's, if it has one; `kind`: that, if not empty), in as few
// groups of each level as possible; 0: all of the kind. The model has two levels: the NVLink
// domain, and the slowest link that so many devices cross. `base`: what a description does not say,
// such as the rate to the host. NotFound: no such devices; ResourceExhausted: not so many.
absl::StatusOr<ClusterPart> PartOf(const topology::Cluster& cluster, const std::string& kind,
                                   int64_t devices, const Network& base);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_NETWORK_OF_CLUSTER_H_
