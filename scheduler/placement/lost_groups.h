// What is left of a job's pipelines and context groups after ranks were lost.
#ifndef STRATA_SCHEDULER_PLACEMENT_LOST_GROUPS_H_
#define STRATA_SCHEDULER_PLACEMENT_LOST_GROUPS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/placement/grid.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// The cells of a group. Zones are groups of the cluster's pipeline level.
struct Block {
  std::vector<int> cells;
  int lost = 0;
  int zone = -1;      // that holds all of its other cells; -1: there is none
  bool torn = false;  // its other cells lie in several zones

  int size() const { return static_cast<int>(cells.size()); }
  int kept() const { return size() - lost; }
};

// Groups that lie in several zones: pipelines, context groups.
using Splits = std::pair<int64_t, int64_t>;

// Borrows all that it is made of; `node_of`, by cell and -1 for lost ones, may change meanwhile.
class LostGroups {
 public:
  LostGroups(const topology::Cluster& cluster, const Grid& grid, const std::vector<int>& node_of)
      : cluster_(cluster), grid_(grid), node_of_(node_of) {}

  int ZoneOf(int node) const { return cluster_.GroupOf(node, cluster_.pipeline_depth()); }
  // The cells whose coordinates differ from `cell`'s in these axes alone, the first axis fastest.
  Block Around(int cell, const std::vector<int>& axes) const;
  // Of these axes, those that lost cells.
  std::vector<Block> ThatLost(const std::vector<int>& axes) const;
  // All that the job has in zones that lost cells; `anchors` as of Anchors().
  std::vector<Block> ZonesThatLost(const std::vector<int>& anchors) const;
  // Where lost cells belong, by cell: in the zone of the rest of the pipeline; of one that is torn,
  // in that of the context group at this stage; of one of which nothing is left, in that of the
  // others of its context group. -1: anywhere, or not lost.
  std::vector<int> Anchors() const;
  // If there is room for every lost cell where it belongs.
  Splits LeastSplits(const std::vector<int>& anchors) const;

 private:
  Block Counted(std::vector<int> cells) const;
  int AnchorOf(int cell) const;
  int64_t LeastSplit(int axis, const std::vector<int>& anchors) const;

  const topology::Cluster& cluster_;
  const Grid& grid_;
  const std::vector<int>& node_of_;
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_LOST_GROUPS_H_
