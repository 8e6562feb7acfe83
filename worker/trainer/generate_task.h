// Generation from a checkpoint: of tokens, after a prompt of tokens; else of text, byte by byte.
#ifndef STRATA_WORKER_TRAINER_GENERATE_TASK_H_
#define STRATA_WORKER_TRAINER_GENERATE_TASK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// InvalidArgument: the prompt is longer than the model's context, or has tokens that the model does
// not. Otherwise as PlanInference.
absl::StatusOr<v1::JobPlan> PlanGeneration(const TaskContext& context);

// Reads the prompt (a line feed when it is empty), then sends each further token, or its byte.
// Stops after a stop token, which it sends, and with a notice where the model's context ends.
absl::Status RunGeneration(const TaskContext& context);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_GENERATE_TASK_H_
