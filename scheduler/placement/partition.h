// How a box of a job's grid is divided among groups of one level, so that as few bytes as possible
// pass between them.
//
// A division is a numbering of the box's cells, cut into runs. Numberings are tried by tiles: the
// box is cut into tiles of equal size (each axis by a divisor), cells are numbered inside a tile
// first and then tile by tile, and every child gets whole tiles as long as there are children that
// hold one, then whole rows of a tile, and so on down to cells. Strips, whole pipelines and whole
// replicas are tiles too. What stays inside a run is counted in closed form, so the cost does not
// grow with the number of cells.
#ifndef STRATA_SCHEDULER_PLACEMENT_PARTITION_H_
#define STRATA_SCHEDULER_PLACEMENT_PARTITION_H_

#include <vector>

#include "scheduler/placement/dealing.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/tiling.h"

namespace strata::scheduler {

struct Part {
  int child = 0;
  Box box;
};

struct PartitionRules {
  // Pipelines, then context groups, stay whole first of all; else only bytes count.
  bool keep_whole = false;
  int budget = 1;  // numberings to count at most
};

// The children together hold the box. Parts by child, ascending, the largest of a child first.
std::vector<Part> DividedAmong(const Grid& grid, const Box& box, const Children& children,
                               const PartitionRules& rules);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_PARTITION_H_
