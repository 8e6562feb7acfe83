// What the steps of a task cost on its machine, as far as that was measured.
#ifndef STRATA_WORKER_TRAINER_STEP_COSTS_H_
#define STRATA_WORKER_TRAINER_STEP_COSTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "planner/cost/job_costs.h"
#include "planner/job/stream_choice.h"
#include "program/ir/mesh.h"
#include "program/ir/program.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// From the task's profile, else, of a kind of GPU that the catalog knows, by its figures; no model:
// there is neither. FailedPrecondition, saying why: the profile is not of this host, these kernels,
// or these numbers of ranks and threads, or, for a job on a GPU, not of such a device; or it has no
// rates of the disks of the job's SSD tier.
absl::StatusOr<planner::NamedCosts> CostsOf(const v1::TrainerTask& task);

// Those of CostsOf where there are such, else rates of an ordinary machine. The same on all ranks:
// a task has a profile where all its ranks are on one machine.
planner::NamedCosts BestCostsOf(const v1::TrainerTask& task);

// Puts into the plan how many layers are resident, and why.
void TellStreaming(const v1::TrainerTask& task, const planner::StreamChoice& choice,
                   v1::JobPlan& plan);

// Puts what the timeline says of a training step into the plan, or a notice of why there is
// nothing. `stages`: laid out. Without costs it does nothing.
absl::Status PredictStep(const v1::TrainerTask& task,
                         const std::vector<const program::ProgramSet*>& stages,
                         const program::Mesh& mesh, v1::JobPlan& plan);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STEP_COSTS_H_
