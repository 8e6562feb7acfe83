// The program strata-trainer: one process per rank, started by strata-worker with its socket as
// descriptor 3 and its progress file as descriptor 4 (trainer.proto).
#ifndef STRATA_WORKER_TRAINER_TRAINER_MAIN_H_
#define STRATA_WORKER_TRAINER_TRAINER_MAIN_H_

#include "worker/trainer/task_context.h"

namespace strata::worker {

// Returns the exit status.
int TrainerMain(int argc, char** argv, const TrainerParts& parts = {});

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TRAINER_MAIN_H_
