// Loss of a checkpoint's model on a file, and its logits.
#ifndef STRATA_WORKER_TRAINER_EVALUATE_TASK_H_
#define STRATA_WORKER_TRAINER_EVALUATE_TASK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// InvalidArgument: windows longer than the model's context, or the file's fault. Otherwise as
// PlanInference.
absl::StatusOr<v1::JobPlan> PlanEvaluation(const TaskContext& context);

// All windows of the file; sends the result. The logits go to the disk as they are computed.
absl::Status RunEvaluation(const TaskContext& context);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_EVALUATE_TASK_H_
