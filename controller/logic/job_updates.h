// Users' wishes about jobs that are there: other values, a pause, the end of their records.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_UPDATES_H_
#define STRATA_CONTROLLER_LOGIC_JOB_UPDATES_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/logic/cluster_state.h"
#include "controller/logic/job_machine.h"

namespace strata::controller {

// As Core's. The new values are within their bounds: the service has checked that.
//
// Priority, queue, labels, time limit and TTL change at once. Steps of a job that holds devices
// change with its next start, for which its ranks stop at a checkpoint: they know their last step,
// and the learning rate follows from it. Of a job that is over, labels and TTL alone change.
absl::StatusOr<v1::JobRecord> UpdateJob(ClusterState& state, JobMachine& machine,
                                        const v1::UpdateJobRequest& request,
                                        const std::string& actor, Effects& effects);
absl::StatusOr<v1::JobRecord> SuspendJob(ClusterState& state, JobMachine& machine,
                                         const v1::SuspendJobRequest& request,
                                         const std::string& actor, Effects& effects);
absl::StatusOr<v1::JobRecord> ResumeJob(ClusterState& state, const v1::ResumeJobRequest& request,
                                        const std::string& actor, Effects& effects);
// Nodes that still hold ranks of the job keep its record until these are gone.
absl::Status DeleteJob(ClusterState& state, JobMachine& machine,
                       const v1::DeleteJobRequest& request, const std::string& actor,
                       Effects& effects);

// Of a job that is over: when it goes, if it does.
void SetExpiry(const v1::Policy& policy, v1::JobRecord& record);
// The same of all that are over, after a change of the policy.
void RenewExpiries(ClusterState& state, Effects& effects);

// InvalidArgument, with the field: negative, or beyond 100 years.
absl::Status CheckDuration(const std::string& field, const google::protobuf::Duration& duration);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_UPDATES_H_
