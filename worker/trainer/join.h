// How a rank gets its peers: it tells the agent its address and digests and who they are, and is
// given their addresses.
#ifndef STRATA_WORKER_TRAINER_JOIN_H_
#define STRATA_WORKER_TRAINER_JOIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/shared/progress_writer.h"
#include "worker/trainer/control.h"

namespace strata::worker {

// Sends `prepared` with the task's rank's address, waits for the start, connects to the ranks that
// `prepared` names as peers and that know this start's nonce (collectives/process_endpoint.h), and
// moves some bytes over every connection, so that what the transport needs is there before memory
// is measured. Null in a world of one. From here on the agent's end cancels the communicator.
// FailedPrecondition: a peer's address did not come.
absl::StatusOr<std::unique_ptr<collectives::Communicator>> Join(Control& control,
                                                                ProgressWriter& progress,
                                                                const v1::TrainerTask& task,
                                                                v1::Prepared prepared);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_JOIN_H_
