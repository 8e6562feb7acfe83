// What the placer sees: the devices that one job may have now.
#ifndef STRATA_CONTROLLER_LOGIC_PLACEMENT_VIEW_H_
#define STRATA_CONTROLLER_LOGIC_PLACEMENT_VIEW_H_

#include <map>
#include <string>
#include <utility>

#include "controller/logic/cluster_state.h"

namespace strata::controller {

// Device (node, index) -> the job for which it is kept.
using DeviceClaims = std::map<std::pair<std::string, int>, const JobEntry*>;

// A job that recovers keeps the devices it had for as long as a lease, so that it finds them when
// the last of its nodes is back.
DeviceClaims ClaimsOfRecovering(const ClusterState& state);

// All nodes in topology order, those that are away too. Free are devices of usable nodes that no
// epoch holds and no other job claims; `job` may be null.
Placer::View ViewFor(ClusterState& state, const JobEntry* job, const DeviceClaims& claims);

// Free devices of all kinds together.
int FreeIn(const Placer::View& view);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_PLACEMENT_VIEW_H_
