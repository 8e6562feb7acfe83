// The cells of a job as a grid, and what its neighbours exchange: what placement minimises.
#ifndef STRATA_SCHEDULER_PLACEMENT_GRID_H_
#define STRATA_SCHEDULER_PLACEMENT_GRID_H_

#include <array>
#include <cstdint>

#include "scheduler/placement/placement.h"

namespace strata::scheduler {

// All dimensions but tensor, in their canonical order: context, expert, pipeline, data, replicate.
inline constexpr int kAxes = planner::kDimensions - 1;
inline constexpr int kContextAxis = 0;
inline constexpr int kPipelineAxis = 2;

struct Axis {
  using Pattern = planner::EdgeTraffic::Pattern;
  int degree = 1;
  int stride = 1;  // in the numbering of cells
  Pattern pattern = Pattern::kRing;
  // Bytes both ways between neighbours (kPairs: between any two), whole, so that sums are exact and
  // comparisons have no rounding; and between the last and the first.
  int64_t weight = 0;
  int64_t closing = 0;
};

struct Grid {
  std::array<Axis, kAxes> axes;
  int cells = 1;

  int Coordinate(int cell, int axis) const { return cell / axes[axis].stride % axes[axis].degree; }
  // Calls visit(neighbour, bytes) for each cell that `cell` exchanges bytes with; a pair that is
  // joined by two edges (a ring of two) comes twice.
  template <typename Visit>
  void ForEachNeighbour(int cell, Visit visit) const {
    for (int i = 0; i < kAxes; ++i) {
      const Axis& axis = axes[i];
      if (axis.degree == 1) continue;
      const int at = Coordinate(cell, i);
      if (axis.pattern == Axis::Pattern::kPairs) {
        for (int to = 0; to < axis.degree; ++to) {
          if (to != at) visit(cell + (to - at) * axis.stride, axis.weight);
        }
        continue;
      }
      const int around = (axis.degree - 1) * axis.stride;
      if (at > 0) visit(cell - axis.stride, axis.weight);
      if (at + 1 < axis.degree) visit(cell + axis.stride, axis.weight);
      if (at == 0 && axis.closing > 0) visit(cell + around, axis.closing);
      if (at + 1 == axis.degree && axis.closing > 0) visit(cell - around, axis.closing);
    }
  }
};

// The shape has at most 2^30 cells.
Grid GridOf(const Shape& shape);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_GRID_H_
