// Calibration: two ranks measure this machine, or its GPUs (worker/trainer/calibration).
#ifndef STRATA_WORKER_TRAINER_CALIBRATE_TASK_H_
#define STRATA_WORKER_TRAINER_CALIBRATE_TASK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// InvalidArgument: not two ranks. FailedPrecondition: a GPU, for which this trainer is not.
absl::StatusOr<v1::JobPlan> PlanCalibration(const TaskContext& context);

// One rank, from joining to the profile, which rank 0 tells.
absl::Status RunCalibration(const TaskContext& context);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATE_TASK_H_
