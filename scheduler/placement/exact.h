// The best assignment of a small job by branch and bound over the nodes.
#ifndef STRATA_SCHEDULER_PLACEMENT_EXACT_H_
#define STRATA_SCHEDULER_PLACEMENT_EXACT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Ranks numbered canonically that obey the shape's constraints and cost less than `start`
// (canonical too; empty: whatever they cost), or nothing: there are none among those on nodes of
// `range`, or not found within the budget. Cells may be formed of any free devices that the rails
// allow, not only as FormCells does. `free`: of the wanted kind alone.
std::optional<std::vector<Device>> SearchExactly(const topology::Cluster& cluster,
                                                 const std::vector<uint64_t>& free,
                                                 const Rails& rails, const Shape& shape,
                                                 const std::vector<Device>& start,
                                                 const topology::Group& range, int64_t budget);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_EXACT_H_
