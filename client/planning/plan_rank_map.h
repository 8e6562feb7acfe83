// A plan that the search found, on the very devices of a described cluster.
#ifndef STRATA_CLIENT_PLANNING_PLAN_RANK_MAP_H_
#define STRATA_CLIENT_PLANNING_PLAN_RANK_MAP_H_

#include <vector>

#include "client/planning/plan_request.h"
#include "planner/search/search.h"
#include "scheduler/placement/step_time.h"

namespace strata::client {

// Of a step as the ranks would be placed, and in the orders that others would give them. Empty: the
// question is not about a cluster, or its free devices do not hold the layout's groups.
std::vector<scheduler::OrderTime> RankMapTimes(const LoadedPlan& plan, const PlanQuestion& question,
                                               const planner::RankedPlan& ranked);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_PLAN_RANK_MAP_H_
