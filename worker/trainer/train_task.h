// Training: steps, their records, evaluation, checkpoints.
#ifndef STRATA_WORKER_TRAINER_TRAIN_TASK_H_
#define STRATA_WORKER_TRAINER_TRAIN_TASK_H_

#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// What is fixed before ranks start (TrainerTask::plan_only).
absl::StatusOr<v1::JobPlan> PlanTraining(const TaskContext& context);

// One rank, from joining to its last checkpoint. SUCCEEDED, or INTERRUPTED when asked to stop.
absl::StatusOr<v1::Finished::Outcome> RunTraining(const TaskContext& context);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TRAIN_TASK_H_
