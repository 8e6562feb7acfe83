// Sees one group of trainers through for one client.
#ifndef STRATA_WORKER_AGENT_STANDALONE_SUPERVISE_H_
#define STRATA_WORKER_AGENT_STANDALONE_SUPERVISE_H_

#include "common/clock.h"
#include "proto/strata/v1/standalone.pb.h"
#include "worker/agent/logic/trainer_group.h"
#include "worker/agent/standalone/client_link.h"
#include "worker/agent/trainers/start_trainers.h"

namespace strata::worker {

// Starts the trainers, hands them the task, and returns when none of them exists any more: when all
// have ended, the client has interrupted or gone away, or the group cannot go on.
v1::Finished Supervise(const TrainersOptions& options, GroupTask& task, ClientLink& client,
                       const common::Clock& clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_STANDALONE_SUPERVISE_H_
