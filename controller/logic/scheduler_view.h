// The controller's state as the scheduler sees it, and back.
#ifndef STRATA_CONTROLLER_LOGIC_SCHEDULER_VIEW_H_
#define STRATA_CONTROLLER_LOGIC_SCHEDULER_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/logic/cluster_state.h"
#include "scheduler/queue/queue.h"

namespace strata::controller {

// Makes state.scheduler's cluster anew if the nodes have changed, and gives its nodes their health
// of the moment. Cheap when nothing has changed.
void RefreshCluster(ClusterState& state);

scheduler::Policy PolicyOf(const v1::Policy& policy);
// Its own priority and its queue's.
int64_t EffectivePriority(const v1::Policy& policy, const v1::JobSpec& spec);

// Devices that a new rank may take: of nodes that take ranks, held by no epoch, kept for no job
// that recovers or moves; a job that recovers keeps the devices it had for as long as a lease, so
// that it finds them when the last of its nodes is back. `but`: what is kept for this job is free.
scheduler::Occupancy FreeDevices(const ClusterState& state, const JobEntry* but = nullptr);

// By rank: where the job's ranks are, or were; node -1 where the node is no longer the cluster's.
scheduler::Placement PlacementOf(const ClusterTree& tree, const v1::JobRecord& job);
scheduler::Placement PlacementOf(const ClusterState& state, const v1::JobRecord& job);
// Likewise where they are to move; empty: they are not.
scheduler::Placement MovingTo(const ClusterState& state, const v1::JobRecord& job);

// Whether the job's ranks may be started again now: its back-off is over and, for a moment, the
// nodes that are there have ended the old ones.
bool MayStart(const ClusterState& state, const JobEntry& job);

// All jobs that wait, hold or keep devices; those that the cluster could never hold are left out.
// Names are the short ones. Borrows the entries' shapes and the state's cluster.
scheduler::View MakeView(ClusterState& state);

// Whether devices of a kind are such as were asked for: of that kind, or "gpu", any but cpu.
bool IsKindFor(const std::string& asked, const std::string& kind);

// Why no state of the cluster could hold the shape, with what is away; empty: one could, or nobody
// has joined yet. Of a snapshot it is found out anew each time, which may take long.
std::string WhyInfeasible(ClusterState& state, const scheduler::Shape& shape);
std::string WhyInfeasible(const Snapshot& snapshot, const scheduler::Shape& shape);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SCHEDULER_VIEW_H_
