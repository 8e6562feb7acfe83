// A trainer process from its task to its last word.
#ifndef STRATA_WORKER_TRAINER_RUN_TASK_H_
#define STRATA_WORKER_TRAINER_RUN_TASK_H_

#include "worker/trainer/control.h"
#include "worker/trainer/mailbox.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// Takes the task from the control socket and does it. `progress_descriptor`: the progress file;
// Returns the process's exit status: 0, or Ended::exit_code.
int RunTask(Control& control, CheckpointMail& mail, int progress_descriptor,
            const TrainerParts& parts);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_RUN_TASK_H_
