#include "planner/data_degrees.h"

#include <algorithm>

#include "program/compose/check_plan.h"

namespace strata::planner {
namespace {

using program::PlanShape;

PlanShape::Shard ShardOf(v1::ParallelSpec::Shard shard) {
  switch (shard) {
    case v1::ParallelSpec::SHARD_ZERO1:
      return PlanShape::Shard::kZero1;
    case v1::ParallelSpec::SHARD_ZERO2:
      return PlanShape::Shard::kZero2;
    case v1::ParallelSpec::SHARD_ZERO3:
      return PlanShape::Shard::kZero3;
    default:
      return PlanShape::Shard::kNone;
  }
}

}  // namespace

v1::ParallelSpec WithData(const v1::ParallelSpec& parallel, int64_t data, int64_t other) {
  v1::ParallelSpec changed = parallel;
  if (parallel.shard_group() == data) changed.set_shard_group(other);
  changed.set_data(other);
  return changed;
}

std::vector<int64_t> FewerData(const v1::ParallelSpec& parallel, int64_t data) {
  const int64_t shards = parallel.virtual_shards();
  std::vector<int64_t> fewer;
  const auto look = [&](int64_t degree) {
    if (degree >= data) return;
    const int64_t group = WithData(parallel, data, degree).shard_group();
    if (group > 0 && degree % group != 0) return;
    if (program::SumsAreSubtrees(ShardOf(parallel.shard()), degree, group, shards)) {
      fewer.push_back(degree);
    }
  };
  for (int64_t divisor = 1; divisor * divisor <= shards; ++divisor) {
    if (shards % divisor != 0) continue;
    look(divisor);
    if (divisor * divisor != shards) look(shards / divisor);
  }
  std::sort(fewer.rbegin(), fewer.rend());
  return fewer;
}

}  // namespace strata::planner
