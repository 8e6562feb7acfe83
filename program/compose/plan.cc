#include "program/compose/plan.h"

#include "common/units.h"

namespace strata::program {

std::vector<StateSpec> StatesOf(const Plan& plan, const ParameterSet& set) {
  std::vector<StateSpec> states;
  if (!set.trainable) return states;
  if (set.type != DType::kF32) states.push_back({kMasterState, "master", plan.master});
  states.insert(states.end(), plan.moments.begin(), plan.moments.end());
  return states;
}

Leaves LeavesOf(const Plan& plan, int64_t micro_batch) {
  const bool by_leaf =
      plan.shard == ShardLevel::kGradients || plan.shard == ShardLevel::kParameters;
  Leaves leaves;
  leaves.data = plan.groups.data;
  leaves.together = by_leaf ? plan.groups.shard : 1;
  leaves.tree = plan.virtual_shards > 0;
  leaves.count = leaves.tree ? plan.virtual_shards : plan.global_batch / micro_batch;
  return leaves;
}

EvaluateShape ShapeOfEvaluation(const Plan& plan, int64_t micro_batch) {
  const int64_t rows = LeavesOf(plan, micro_batch).rows();
  const int64_t sequences = common::CeilDivide(plan.evaluate_batch, rows);
  return {sequences, common::RoundUp(sequences, micro_batch)};
}

}  // namespace strata::program
