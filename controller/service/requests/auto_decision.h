// What `auto` in a job stands for that came without the command line, which decides before it
// submits.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_

#include <functional>

#include "absl/status/statusor.h"
#include "controller/logic/core.h"
#include "planner/plan_family.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// The fastest layout of those that are legal, by usual rates and what was learned: the controller
// has no machine's profile. `job`: its spec as CheckSpec leaves it, with autos. Takes seconds.
// FailedPrecondition (INFEASIBLE): no layout is legal; InvalidArgument (INVALID_JOB): the model's
// sizes are not there; ResourceExhausted (DECISION_TOO_LARGE): programs that a controller does not
// compose for others, or more time than `gives_up` had. They say what to do.
absl::StatusOr<DecidedSpec> DecideAutos(const v1::Job& job, const planner::LearnedFamilies& learned,
                                        const std::function<bool()>& gives_up);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_
