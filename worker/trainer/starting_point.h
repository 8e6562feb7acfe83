// Where a training job begins: which epoch, and from which checkpoint.
#ifndef STRATA_WORKER_TRAINER_STARTING_POINT_H_
#define STRATA_WORKER_TRAINER_STARTING_POINT_H_

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Prepares the checkpoint directory, finishes what a crash interrupted there, and fills epoch,
// checkpoint, start step and notices of the plan. Damaged checkpoints newer than the one used are
// named in notices and set aside. Errors: InvalidArgument: the directory cannot be used, holds
// checkpoints of a job that is not to be resumed, or of a job that differs, also in the content of
// the plan's data files, or train.start_from names nothing that the job can go on from; DataLoss:
// only damaged
// checkpoints, each named on a line of its own (nothing was changed). Under a controller, which
// names epoch and checkpoint and keeps the data files, only what it recorded counts; errors of
// OpenRecorded.
absl::Status FindStartingPoint(const v1::TrainerTask& task, v1::JobPlan& plan);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STARTING_POINT_H_
