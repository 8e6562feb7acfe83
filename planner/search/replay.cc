#include "planner/search/replay.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "planner/cost/catalog_cost_model.h"
#include "planner/fit/collective_scratch.h"
#include "planner/search/job_choice.h"
#include "planner/search/predicted_job.h"

namespace strata::planner {

absl::StatusOr<Replay> ReplayPlan(const Machine& machine, const model::ModelSpec& model,
                                  const TrainingShape& shape, const RankedPlan& plan) {
  const LayoutChoice& layout = plan.layout;
  RETURN_IF_ERROR(HasPrograms(shape, layout));
  if (PassesOf(shape, layout) > kMostReplayedPasses) {
    return absl::ResourceExhaustedError(absl::StrCat(shape.layers, " layers for each of ",
                                                     layout.micro_batches(),
                                                     " micro-batches are too many to replay"));
  }
  if (layout.data > kMostReplayedData) {
    return absl::ResourceExhaustedError(
        absl::StrCat(layout.data, " ranks of data are too many to replay"));
  }
  if (layout.unified) {
    return absl::UnimplementedError("pages of unified memory have no price in a replay");
  }
  const CatalogCostModel costs(machine);
  ASSIGN_OR_RETURN(const PredictedJob predicted,
                   PredictJob(JobOf(shape, layout, SavedNames(model.family)), model,
                              {.scratch = CollectiveScratch, .costs = &costs}));
  const StepTerms& terms = plan.step.terms;
  Replay replay{predicted.seconds + terms.overhead + terms.straggler, predicted.terms};
  replay.terms.emplace_back("overhead", terms.overhead);
  if (terms.straggler > 0) replay.terms.emplace_back("stragglers", terms.straggler);
  return replay;
}

}  // namespace strata::planner
