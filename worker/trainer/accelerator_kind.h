// Whether a rank's device is such as its job asked for.
#ifndef STRATA_WORKER_TRAINER_ACCELERATOR_KIND_H_
#define STRATA_WORKER_TRAINER_ACCELERATOR_KIND_H_

#include "absl/status/status.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// Only of a machine's ranks that no controller placed: agents know the kinds of a cluster's
// devices.
absl::Status CheckKind(const v1::TrainerTask& task, const NamedAccelerator& made);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_ACCELERATOR_KIND_H_
