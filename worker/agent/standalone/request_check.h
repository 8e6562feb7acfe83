// What the agent refuses of a standalone request before it starts anything.
#ifndef STRATA_WORKER_AGENT_STANDALONE_REQUEST_CHECK_H_
#define STRATA_WORKER_AGENT_STANDALONE_REQUEST_CHECK_H_

#include "absl/status/status.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::worker {

// InvalidArgument: a request that no client of this build makes (no task, ranks out of range,
// relative paths, missing parts).
absl::Status CheckRequest(const v1::StandaloneRequest& request);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_STANDALONE_REQUEST_CHECK_H_
