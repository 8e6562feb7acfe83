// A job's programs, and what the timeline says of its training step.
#ifndef STRATA_PLANNER_SEARCH_PREDICTED_JOB_H_
#define STRATA_PLANNER_SEARCH_PREDICTED_JOB_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "planner/job/job_plan.h"
#include "program/compose/composer.h"
#include "program/ir/mesh.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

struct PredictedJob {
  program::Mesh mesh;
  std::vector<program::StagePrograms> stages;
  double seconds = 0;  // of a step, of the slowest rank
  // Its parts: "compute", and what compute waits for, by purpose.
  std::vector<std::pair<std::string, double>> terms;
};

// `job` is complete; `around` has what costs are. InvalidArgument, Unimplemented: the job cannot
// be, with the reason.
absl::StatusOr<PredictedJob> PredictJob(const v1::JobSpec& job, const model::ModelSpec& model,
                                        const JobSurroundings& around);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_PREDICTED_JOB_H_
