// strata-worker --standalone: one task of one client, without a controller (standalone.proto).
#ifndef STRATA_WORKER_AGENT_STANDALONE_STANDALONE_H_
#define STRATA_WORKER_AGENT_STANDALONE_STANDALONE_H_

#include "common/clock.h"
#include "proto/strata/v1/standalone.pb.h"
#include "worker/agent/standalone/client_link.h"

namespace strata::worker {

// Plans, starts the ranks, and sees them through. When it returns no trainer exists.
v1::Finished RunStandalone(const v1::StandaloneRequest& request, ClientLink& client,
                           const common::Clock& clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_STANDALONE_STANDALONE_H_
