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

// Where two nodes meet, from one flat table.
class Meetings {
 public:
  explicit Meetings(const topology::Cluster& cluster, const std::vector<Device>& ranks)
      : depths_(cluster.node_depth()), row_of_(cluster.nodes().size(), -1) {
    for (const Device& device : ranks) {
      if (row_of_[device.node] >= 0) continue;
      row_of_[device.node] = static_cast<int>(rows_.size());
      for (int depth = 0; depth < depths_; ++depth) {
        rows_.push_back(cluster.GroupOf(device.node, depth));
      }
    }
  }
  int DepthOf(int node_a, int node_b) const {
    if (node_a == node_b) return depths_;
    const int* a = &rows_[row_of_[node_a]];
    const int* b = &rows_[row_of_[node_b]];
    int depth = 1;
    while (depth < depths_ && a[depth] == b[depth]) ++depth;
    return depth - 1;
  }

 private:
  int depths_;
  std::vector<int> row_of_;  // by node: into rows_
  std::vector<int> rows_;    // groups of a node, by depth
};

// Borrows all that it is made of.
class EdgeCounter {
 public:
  EdgeCounter(const topology::Cluster& cluster, const Shape& shape,
              const std::vector<planner::Dimension>& order, const std::vector<Device>& ranks);

  EdgeCounts Count(planner::Dimension dimension) const;
  // Groups along `dimension`, of whole tensor groups, that lie across groups of the pipeline level.
  int64_t CountSplit(planner::Dimension dimension) const;

 private:
  size_t Depth(int64_t a, int64_t b) const { return meet_.DepthOf(ranks_[a].node, ranks_[b].node); }
  int ZoneOf(int64_t rank) const {
    return cluster_.GroupOf(ranks_[rank].node, cluster_.pipeline_depth());
  }

  const topology::Cluster& cluster_;
  const Shape& shape_;
  const std::vector<Device>& ranks_;
  const Meetings meet_;
  std::array<int64_t, planner::kDimensions> stride_ = {};
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_EDGE_COUNTS_H_
