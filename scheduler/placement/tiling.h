// A numbering of the cells of a box by tiles, and how many bytes stay inside runs of it.
#ifndef STRATA_SCHEDULER_PLACEMENT_TILING_H_
#define STRATA_SCHEDULER_PLACEMENT_TILING_H_

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/placement/partition.h"

namespace strata::scheduler {

// Positions [begin, end) of a numbering.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
};

class Tiling {
 public:
  // `tile`: divisors of the box's extents. `inner` and `outer`: the order of the axes inside a tile
  // and among tiles, fastest first.
  Tiling(const Grid& grid, const Box& box, const std::array<int, kAxes>& tile,
         const std::array<int, kAxes>& inner, const std::array<int, kAxes>& outer);

  int64_t cells() const { return cells_; }
  // Sizes of what may stay together, largest first: a tile, then fewer and fewer of its digits,
  // down to 1.
  const std::vector<int64_t>& units() const { return units_; }
  // Whether a unit contains the box's whole extent of an axis.
  bool UnitHolds(int64_t unit, int axis) const;
  // Bytes between cells of the same set of runs.
  int64_t BytesInside(const std::vector<Run>& runs) const;
  // Boxes that make up a run.
  void AppendBoxes(const Run& run, std::vector<Box>& boxes) const;

 private:
  struct Digit {
    int axis = 0;
    int64_t degree = 1;
    int64_t stride = 1;  // in positions
    int step = 1;        // of the coordinate
  };
  // The two digits of an axis; of degree 1 where it has none.
  struct Digits {
    Digit low, high;
  };
  enum class Condition { kAny, kNotLast, kLast };

  int64_t Below(int64_t position, const Digits& digits, Condition low, Condition high) const;
  int64_t Edges(const std::vector<Run>& runs, int64_t shift, const Digits& digits, Condition low,
                Condition high) const;
  void Decompose(int level, int64_t begin, int64_t end, std::vector<std::array<int64_t, 2>>& ranges,
                 std::vector<Box>& boxes) const;

  const Grid& grid_;
  Box box_;
  int64_t cells_ = 1;
  std::vector<Digit> digits_;  // fastest first
  std::array<Digits, kAxes> by_axis_;
  std::vector<int64_t> units_;
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_TILING_H_
