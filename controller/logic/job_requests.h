// Users' wishes: new jobs and cancellations.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_REQUESTS_H_
#define STRATA_CONTROLLER_LOGIC_JOB_REQUESTS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "controller/logic/cluster_state.h"
#include "controller/logic/job_machine.h"

namespace strata::controller {

// Jobs kept; the oldest finished one makes room for a new one.
inline constexpr size_t kMostJobs = 10000;
inline constexpr size_t kMostSpecBytes = 1 << 20;
inline constexpr size_t kMostRequestIdBytes = 128;
inline constexpr int64_t kMostRanks = 1 << 20;

// As Core's. A name is taken for as long as its job is kept, finished or not: its directory holds
// that job's checkpoints. FailedPrecondition (DIRECTORY_IN_USE, with the field): a folder of the
// job overlaps one of another job that is not over. Nodes check what an ended job has left there.
absl::StatusOr<v1::JobRecord> CreateJob(ClusterState& state, JobMachine& machine,
                                        const v1::CreateJobRequest& request,
                                        const std::string& actor, const DecidedSpec* decided,
                                        Effects& effects);
// A cancellation may be repeated with a shorter grace.
absl::StatusOr<v1::JobRecord> CancelJob(ClusterState& state, JobMachine& machine,
                                        const v1::CancelJobRequest& request,
                                        const std::string& actor, Effects& effects);

absl::Status NoSuchJob(const std::string& name);
// Aborted (ETAG_MISMATCH) when the client has seen another version; empty: it does not say.
absl::Status CheckEtag(const std::string& seen, const v1::JobRecord& record);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_REQUESTS_H_
