#include "client/planning/plan_rank_map.h"

#include <optional>

#include "planner/search/job_choice.h"
#include "planner/traffic.h"
#include "scheduler/placement/placement.h"

namespace strata::client {

std::vector<scheduler::OrderTime> RankMapTimes(const LoadedPlan& plan, const PlanQuestion& question,
                                               const planner::RankedPlan& ranked) {
  if (question.cluster == nullptr) return {};
  const planner::SearchRequest& request = question.request;
  const v1::JobSpec job = planner::JobOf(request.shape, ranked.layout, plan.saved_names);
  const auto degrees = planner::DegreesOf(job.parallel());
  if (!degrees.ok()) return {};
  scheduler::Shape shape;
  shape.degrees = *degrees;
  shape.traffic = planner::TrafficOf(plan.model.spec, job, *degrees);
  shape.device = question.kind;
  const auto placement =
      scheduler::Place(*question.cluster, scheduler::Occupancy::Now(*question.cluster), shape);
  if (!placement.has_value()) return {};
  return scheduler::StepTimes({request.machine, request.shape, ranked.layout}, *question.cluster,
                              shape, *placement);
}

}  // namespace strata::client
