// Ranked plans for people and programs.
#ifndef STRATA_CLIENT_VIEWS_PLAN_VIEW_H_
#define STRATA_CLIENT_VIEWS_PLAN_VIEW_H_

#include <string>
#include <vector>

#include "client/planning/plan_answer.h"
#include "client/views/structured.h"
#include "planner/search/auto_layout.h"
#include "planner/search/replay.h"
#include "planner/search/search.h"

namespace strata::client {

// Of the plans of the only question, in their order, by the programs that ranks would run; empty:
// none were replayed.
using Replays = std::vector<absl::StatusOr<planner::Replay>>;

// In the order of the answers.
std::string PlanText(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers,
                     const Replays& replays, bool unicode);
// {plans: [{parallel, memory, seconds, terms, why, replay: {seconds, terms} or null and
// replay_reason, …}]}; with a topology the first has also
// {rank_map: {seconds, contiguous, random, hostname}}, of a step as it would be placed; of several
// questions, {variations: [{set, device, legal, plans}]} with the best of each, or {smallest:
// {parallel, memory}} of what does not fit, and `why_none` where no layout is legal.
Json ToJson(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers, const Replays& replays);

// The first `top` of a job's layouts.
std::string LayoutsText(const std::vector<planner::Candidate>& layouts, size_t top);
// {plans: [{parallel, memory, seconds, terms, why, set}]}; `set`: what --set would say. With what
// steps of earlier jobs took also {correction: {ratio, steps, of: layout or workload}}.
Json LayoutsJson(const std::vector<planner::Candidate>& layouts, size_t top);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_PLAN_VIEW_H_
