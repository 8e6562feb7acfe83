// Small changes that make an assignment cheaper.
#ifndef STRATA_SCHEDULER_PLACEMENT_IMPROVE_H_
#define STRATA_SCHEDULER_PLACEMENT_IMPROVE_H_

#include <cstdint>
#include <vector>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Exchanges two cells, or moves one to a free place, as long as that lowers the cost (split
// pipelines, split context groups, then bytes from the root inwards) and `budget` exchanges have
// not been looked at. `node_of`: by cell of the grid.
void Improve(const topology::Cluster& cluster, const Cells& cells, const Grid& grid, int64_t budget,
             std::vector<int>& node_of);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_IMPROVE_H_
