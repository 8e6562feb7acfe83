#include "planner/data_degrees.h"

#include <algorithm>

namespace strata::planner {

int64_t VirtualShards(const v1::ParallelSpec& parallel, int64_t data) {
  return parallel.virtual_shards() > 0 ? parallel.virtual_shards() : data;
}

std::vector<int64_t> FewerData(const v1::ParallelSpec& parallel, int64_t data) {
  const int64_t group = std::max<int64_t>(1, parallel.shard_group());
  std::vector<int64_t> fewer;
  for (int64_t degree = VirtualShards(parallel, data); degree >= 1; degree /= 2) {
    if (degree < data && degree % group == 0) fewer.push_back(degree);
    if (degree % 2 != 0) break;
  }
  if (data > 1 && group == 1 && (fewer.empty() || fewer.back() != 1)) fewer.push_back(1);
  return fewer;
}

}  // namespace strata::planner
