#include "planner/search/predicted_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::planner {
namespace {

std::vector<std::pair<std::string, double>> TermsOf(const program::RankTimeline& rank) {
  std::vector<std::pair<std::string, double>> terms = {{"compute", rank.compute_seconds}};
  for (int p = 0; p < program::kPurposeCount; ++p) {
    if (rank.exposed[p] <= 0) continue;
    terms.emplace_back(absl::StrCat("waiting for ", Name(static_cast<program::Purpose>(p))),
                       rank.exposed[p]);
  }
  return terms;
}

}  // namespace

absl::StatusOr<PredictedJob> PredictJob(const v1::JobSpec& job, const model::ModelSpec& model,
                                        const JobSurroundings& around) {
  ASSIGN_OR_RETURN(const DecidedJob decided, DecideJob(job, model, around));
  PredictedJob predicted{.mesh = {.sizes = decided.decision.plan.groups}};
  for (int s = 0; s < predicted.mesh.sizes.pipeline; ++s) {
    ASSIGN_OR_RETURN(program::StagePrograms stage,
                     program::ComposeStage(decided.decision, s, decided.update));
    predicted.stages.push_back(std::move(stage));
  }
  std::vector<const program::ProgramSet*> sets;
  for (const program::StagePrograms& stage : predicted.stages) sets.push_back(&stage.set);
  ASSIGN_OR_RETURN(const program::Timeline timeline,
                   program::PredictTimeline(sets, "train", predicted.mesh, *around.costs));
  const auto slowest = std::max_element(
      timeline.ranks.begin(), timeline.ranks.end(),
      [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
  predicted.seconds = timeline.step_seconds;
  predicted.terms = TermsOf(*slowest);
  return predicted;
}

}  // namespace strata::planner
