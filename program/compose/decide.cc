#include <utility>

#include "common/status_macros.h"
#include "program/compose/composer.h"

namespace strata::program {

absl::StatusOr<Decision> Decide(LayerGraph graph, const Plan& plan) {
  Decision decision{.graph = std::move(graph), .plan = plan};
  ASSIGN_OR_RETURN(decision.train, PlanTraining(decision.graph, plan));
  decision.leaves = LeavesOf(plan, decision.graph.micro_batch);
  for (ParameterSet& set : decision.graph.sets) FlattenSet(set, decision.leaves.rows());
  if (plan.evaluate_batch > 0) {
    decision.evaluate_shape = ShapeOfEvaluation(plan, decision.graph.micro_batch);
    const int64_t passes = decision.evaluate_shape.padded / decision.graph.micro_batch *
                           decision.leaves.rows_per_rank();
    ASSIGN_OR_RETURN(decision.evaluate,
                     PlanEvaluation(decision.graph, plan, static_cast<int>(passes)));
  }
  ASSIGN_OR_RETURN(decision.sets, PlanSets(decision.graph, plan, decision.train));
  return decision;
}

}  // namespace strata::program
