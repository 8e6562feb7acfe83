// The new values of an UpdateJobRequest, by the checks that a job file meets.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_UPDATE_CHECK_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_UPDATE_CHECK_H_

#include "absl/status/status.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// InvalidArgument, with the fields: no name, no mask, an unknown path, values outside of their
// bounds.
absl::Status CheckUpdate(const v1::UpdateJobRequest& request);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_UPDATE_CHECK_H_
