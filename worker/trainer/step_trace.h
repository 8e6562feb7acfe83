// DIR/trace of a job's directory, for `strata trace`: what this rank executes, and what the
// timeline said that all would.
#ifndef STRATA_WORKER_TRAINER_STEP_TRACE_H_
#define STRATA_WORKER_TRAINER_STEP_TRACE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "program/ir/mesh.h"
#include "program/ir/program.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/trace.pb.h"
#include "protocol/trace_file.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// Names of all that `rank` runs of its stage's programs; what says whose start and which machine's
// it is, is left open.
v1::TraceHead DescribeTrace(const program::ProgramSet& programs, const program::Mesh& mesh,
                            int rank);

// The last step of the timeline's walk, from its first computation on. Errors of PredictTimeline.
absl::StatusOr<v1::PredictedTrace> PredictTrace(
    const std::vector<const program::ProgramSet*>& stages, const program::Mesh& mesh,
    const program::CostModel& costs);

// The ring that the rank's actions are recorded in; the first program is the one whose steps are
// the job's. Null: of what is no training, or where a notice has told why there is none: a job
// trains without it.
std::unique_ptr<protocol::TraceFile> OpenTrace(const TaskContext& context,
                                               const program::ProgramSet& programs,
                                               const program::Mesh& mesh);

// Rank 0's, of the programs of all stages. A notice tells where it cannot be written.
void WritePrediction(const TaskContext& context,
                     const std::vector<const program::ProgramSet*>& stages,
                     const program::Mesh& mesh);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STEP_TRACE_H_
