#include "program/compose/plan.h"

#include <numeric>

#include "common/units.h"

namespace strata::program {

std::vector<StateSpec> StatesOf(const Plan& plan, const ParameterSet& set) {
  std::vector<StateSpec> states;
  if (!set.trainable) return states;
  if (set.type != DType::kF32) states.push_back({kMasterState, "master", plan.master});
  states.insert(states.end(), plan.moments.begin(), plan.moments.end());
  return states;
}

std::vector<Home> HomesOf(const Place& place, const std::vector<int64_t>& bytes) {
  std::vector<Home> homes(bytes.size(), Home::kDevice);
  if (!place.beyond_device()) return homes;
  const auto all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  const double parts[] = {1 - place.unified - place.host - place.ssd, place.unified, place.host,
                          place.ssd};
  const int farthest = place.ssd > 0 ? 3 : place.host > 0 ? 2 : 1;
  // What the nearest homes, up to each, have room for; what is farther takes the rest.
  double room[] = {parts[0] * all, (parts[0] + parts[1]) * all,
                   (parts[0] + parts[1] + parts[2]) * all, all};
  double given[] = {0, 0, 0, 0}, seen = 0;
  for (size_t unit = 0; unit < bytes.size(); ++unit) {
    if (bytes[unit] == 0) continue;
    const auto size = static_cast<double>(bytes[unit]);
    seen += size;
    const auto lacks = [&](int home) { return parts[home] * seen - given[home]; };
    int best = farthest;
    for (int home = farthest - 1; home >= 0; --home) {
      if (size > room[home] + all * 1e-9) break;  // nearer ones take of the same
      if (parts[home] > 0 && lacks(home) > lacks(best)) best = home;
    }
    given[best] += size;
    for (int home = best; home < farthest; ++home) room[home] -= size;
    homes[unit] = static_cast<Home>(best);
  }
  return homes;
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
