// Edges of a rank map, counted by the depth at which their ends meet.
#ifndef STRATA_SCHEDULER_PLACEMENT_EDGE_COUNTS_H_
#define STRATA_SCHEDULER_PLACEMENT_EDGE_COUNTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Edges of one dimension by the depth at which their ends meet.
struct EdgeCounts {
  std::vector<int64_t> between;  // neighbours (kPairs: any two ranks of a group, once)
  std::vector<int64_t> closing;  // the last rank of a ring and its first
};

struct RankMapCounts {
  std::array<EdgeCounts, planner::kDimensions> edges;  // of dimensions of degree 1: empty
  // Groups of whole tensor groups that lie across groups of the pipeline level.
  int64_t split_pipelines = 0;
  int64_t split_contexts = 0;
};

RankMapCounts CountsOf(const topology::Cluster& cluster, const Shape& shape,
                       const std::vector<planner::Dimension>& order,
                       const std::vector<Device>& ranks);

// Bytes and time of a rank map with these counts.
Cost CostOf(const topology::Cluster& cluster, const Shape& shape, const RankMapCounts& counts);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_EDGE_COUNTS_H_
