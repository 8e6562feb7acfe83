// How good predictions of measured runs were, for people and for programs.
#ifndef STRATA_CLIENT_VIEWS_EVALUATION_VIEW_H_
#define STRATA_CLIENT_VIEWS_EVALUATION_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "planner/evaluation/evaluation.h"

namespace strata::client {

// Errors by source, precision and GPU; rankings, of each grid where a source has at most 12 of
// them, else their means; memory; what could not be predicted, by reason.
std::string EvaluationText(const std::vector<planner::MeasuredRun>& runs,
                           const planner::Evaluation& evaluation);

// {"rows": [{"id", "source", "predicted_seconds", "predicted_memory_bytes", "terms", "calibration",
// "reason"}], "by_source": […], …}: in `rows` what was not predicted is null.
Json ToJson(const std::vector<planner::MeasuredRun>& runs, const planner::Evaluation& evaluation);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_EVALUATION_VIEW_H_
