// The folders that a project's jobs keep to: ProjectPolicy.roots.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_ROOTS_H_
#define STRATA_CONTROLLER_LOGIC_JOB_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// Of the spec's project; none: its jobs may read and write anywhere.
std::vector<std::string> RootsOf(const v1::Policy& policy, const v1::JobSpec& spec);

// Whether all paths that the job reads or writes lie under one of its project's roots, by their
// text: agents and trainers hold them there when they are opened. InvalidArgument with the first
// field that does not.
absl::Status CheckRoots(const v1::Policy& policy, const v1::Job& job);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_ROOTS_H_
