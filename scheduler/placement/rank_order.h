// Rank maps in one numbering or another.
#ifndef STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_
#define STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_

#include <vector>

#include "scheduler/placement/edge_counts.h"
#include "scheduler/placement/placement.h"

namespace strata::scheduler {

// tensor, context, expert, pipeline, data, replicate.
std::vector<planner::Dimension> CanonicalOrder();

// The ranks of `from` numbered by `to`.
std::vector<Device> Renumbered(const planner::Degrees& degrees, std::vector<Device> ranks,
                               const std::vector<planner::Dimension>& from,
                               const std::vector<planner::Dimension>& to);

// The cells (tensor groups) of a canonical rank map, sorted by where their first devices are in the
// order of the tree.
std::vector<int> CellsInTreeOrder(const std::vector<Device>& ranks, int64_t tensor);

// The rank map with cell `order[i]` of the given one in place i.
std::vector<Device> Reordered(const std::vector<Device>& ranks, int64_t tensor,
                              const std::vector<int>& order);

// The order that follows how ranks are nested: a dimension comes the sooner the fewer of its edges
// meet at the root, then at the outermost level, and so on.
std::vector<planner::Dimension> OrderOf(const Shape& shape, const RankMapCounts& counts);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_
