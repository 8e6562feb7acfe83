// Operators' wishes: policies, and nodes that take no ranks for a while.
#ifndef STRATA_CONTROLLER_LOGIC_CLUSTER_REQUESTS_H_
#define STRATA_CONTROLLER_LOGIC_CLUSTER_REQUESTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/logic/cluster_state.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::controller {

// As Core's. The policy's values are within their bounds: its service has checked that.
absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(ClusterState& state,
                                                    const v1::ApplyPolicyRequest& request,
                                                    Effects& effects);
absl::StatusOr<v1::Node> DrainNode(ClusterState& state, const v1::DrainNodeRequest& request,
                                   Effects& effects);
absl::StatusOr<v1::DrainNodesResponse> DrainNodes(ClusterState& state,
                                                  const v1::DrainNodesRequest& request,
                                                  Effects& effects);
absl::StatusOr<v1::Node> ResumeNode(ClusterState& state, const v1::ResumeNodeRequest& request,
                                    Effects& effects);
absl::Status DeleteNode(ClusterState& state, const v1::DeleteNodeRequest& request,
                        Effects& effects);

// InvalidArgument, with the field, for a job whose project or queue does not exist.
absl::Status CheckProjectAndQueue(const v1::Policy& policy, const v1::JobSpec& spec);
// Those that a job belongs to.
std::string ProjectOf(const v1::JobSpec& spec);
std::string QueueOf(const v1::JobSpec& spec);

// A node as users see it.
v1::Node ShowNode(const NodeEntry& node);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_CLUSTER_REQUESTS_H_
