// A job's spec, or a policy, as it comes over the wire: everything that a job file's reader checks,
// and what only a file's reader can be sure of (paths are absolute, enum values exist).
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_SPEC_CHECK_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_SPEC_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/job.pb.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// Fills in the defaults. Otherwise all problems at once, by path: InvalidArgument (INVALID_JOB)
// when the job must change, FailedPrecondition (INFEASIBLE) when no layout or machine can do it.
// A spec with autos (parallel, memory, train.micro_batch) that is right but for them stays as it
// is: see DecideAutos. `default_name`: of the job when the spec gives none. Time and memory are
// bounded by the 1 MiB that a spec may have.
absl::Status CheckSpec(absl::string_view default_name, v1::JobSpec& spec);

// All problems of a policy at once, by the paths of its file: InvalidArgument (INVALID_POLICY).
absl::Status CheckPolicy(const v1::Policy& policy);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_SPEC_CHECK_H_
