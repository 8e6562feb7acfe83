// What a project allows its jobs.
#ifndef STRATA_CONTROLLER_LOGIC_PROJECT_LIMITS_H_
#define STRATA_CONTROLLER_LOGIC_PROJECT_LIMITS_H_

#include "absl/status/status.h"
#include "controller/logic/cluster_state.h"

namespace strata::controller {

// InvalidArgument, with the field: the job is larger than its project allows, or more urgent.
absl::Status CheckSpecLimits(const v1::Policy& policy, const v1::JobSpec& spec);
// ResourceExhausted (QUEUE_FULL, with QuotaFailure): as many jobs of its project wait as may.
absl::Status CheckQueueLimit(const ClusterState& state, const v1::JobSpec& spec);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_PROJECT_LIMITS_H_
