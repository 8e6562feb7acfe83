// What the search found for each question of `strata plan`, what that costs, and in which order.
#ifndef STRATA_CLIENT_PLANNING_PLAN_ANSWER_H_
#define STRATA_CLIENT_PLANNING_PLAN_ANSWER_H_

#include <string>
#include <vector>

#include "client/planning/plan_request.h"
#include "planner/search/search.h"

namespace strata::client {

struct PlanAnswer {
  PlanQuestion question;
  planner::SearchResult result;
  std::string why_none;  // no layout is legal; else empty
};

// Answers in the order of the questions. Strata's own plans fit by their programs, of variations
// the first; those that take more than a moment to compose, if they are asked for.
std::vector<PlanAnswer> AnswersOf(const LoadedPlan& plan, bool all_programs);

// Of one plan.
struct PlanRates {
  double tokens_per_device = 0;  // a second
  double mfu_causal = 0, mfu_full = 0;
  double per_billion_tokens = 0, run = 0;  // money; 0: no price, or no tokens
  double run_days = 0;
};
PlanRates RatesOf(const PlanQuestion& question, double run_tokens,
                  const planner::RankedPlan& ranked);

// Orders answers by what as many tokens take (`time`) or cost (`money`); what has no plan comes
// last. Returns what the user should know of the order, a line: where nothing that is asked
// changes the money of a device's second, both orders are the same. InvalidArgument: money is
// asked, and there is no price.
absl::StatusOr<std::string> RankAnswers(const std::string& by, std::vector<PlanAnswer>& answers);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_PLAN_ANSWER_H_
