// Which cell of the cluster each cell of a job's grid gets.
#ifndef STRATA_SCHEDULER_PLACEMENT_ASSIGNMENT_H_
#define STRATA_SCHEDULER_PLACEMENT_ASSIGNMENT_H_

#include <vector>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// From the root downwards: the smallest group that holds what is to be placed; where none does, the
// division among children that keeps most bytes inside them (partition.h). By cell of the grid: the
// node that it is on. There are at least as many cells as the grid has.
std::vector<int> AssignTopDown(const topology::Cluster& cluster, const Cells& cells,
                               const Grid& grid);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_ASSIGNMENT_H_
