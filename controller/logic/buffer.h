// The buffer (scheduling.buffer) as the controller sees it.
#ifndef STRATA_CONTROLLER_LOGIC_BUFFER_H_
#define STRATA_CONTROLLER_LOGIC_BUFFER_H_

#include "absl/status/status.h"
#include "controller/logic/cluster_state.h"

namespace strata::controller {

// Whether the job has ranks, and it or its queue says that it may borrow the buffer.
bool RunsPreemptibly(const ClusterState& state, const JobEntry& job);

// Of the cluster as the scheduler saw it last. Nothing without a policy.
BufferState BufferNow(const ClusterState& state);

// InvalidArgument, with the field: no node of this cluster lies in a group of the level.
absl::Status CheckBufferLevel(ClusterState& state, const v1::Policy& policy);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_BUFFER_H_
