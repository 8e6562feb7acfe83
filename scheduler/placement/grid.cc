#include "scheduler/placement/grid.h"

#include <cmath>

namespace strata::scheduler {

Grid GridOf(const Shape& shape) {
  Grid grid;
  for (int i = 0; i < kAxes; ++i) {
    Axis& axis = grid.axes[i];
    const planner::EdgeTraffic& edge = shape.traffic[i + 1];
    axis.degree = static_cast<int>(shape.degrees[i + 1]);
    axis.stride = grid.cells;
    grid.cells *= axis.degree;
    axis.pattern = edge.pattern;
    if (edge.pattern == Axis::Pattern::kPairs) {
      axis.weight = std::llround(2 * edge.next_bytes);
      continue;
    }
    const double bytes = edge.next_bytes + edge.previous_bytes;
    axis.weight = std::llround(bytes);
    if (edge.pattern == Axis::Pattern::kRing) axis.closing = std::llround(bytes * edge.closing);
  }
  return grid;
}

}  // namespace strata::scheduler
