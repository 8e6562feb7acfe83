// Rank maps in one numbering or another.
#ifndef STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_
#define STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_

#include <vector>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// tensor, context, expert, pipeline, data, replicate.
std::vector<planner::Dimension> CanonicalOrder();

// The ranks of `from` numbered by `to`.
std::vector<Device> Renumbered(const planner::Degrees& degrees, const std::vector<Device>& ranks,
                               const std::vector<planner::Dimension>& from,
                               const std::vector<planner::Dimension>& to);

// The order that follows how the ranks, numbered canonically, were nested: a dimension comes the
// sooner the fewer of its edges meet at the root, then at the outermost level, and so on.
std::vector<planner::Dimension> OrderOf(const topology::Cluster& cluster, const Shape& shape,
                                        const std::vector<Device>& ranks);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_RANK_ORDER_H_
