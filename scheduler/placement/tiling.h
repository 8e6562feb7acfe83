// A numbering of the cells of a box by tiles, and how many bytes stay inside runs of it.
#ifndef STRATA_SCHEDULER_PLACEMENT_TILING_H_
#define STRATA_SCHEDULER_PLACEMENT_TILING_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/placement/grid.h"

namespace strata::scheduler {

using Axes = std::array<int, kAxes>;  // a number for each, or an order of them

struct Box {
  Axes from = {};
  Axes to = {};  // exclusive

  int extent(int axis) const { return to[axis] - from[axis]; }
  int cells() const {
    int cells = 1;
    for (int i = 0; i < kAxes; ++i) cells *= extent(i);
    return cells;
  }
};

// Positions [begin, end) of a numbering.
struct Run {
  int begin = 0;
  int end = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

class Tiling {
 public:
  // `tile`: divisors of the box's extents. `inner` and `outer`: the order of the axes inside a tile
  // and among tiles, fastest first.
  Tiling(const Grid& grid, const Box& box, const Axes& tile, const Axes& inner, const Axes& outer);
  void SetOuter(const Axes& outer);

  int cells() const { return cells_; }
  // Sizes of what may stay together, largest first: a tile, then fewer and fewer of its digits,
  // down to 1. The order among tiles does not change them.
  std::span<const int> units() const { return {units_.data(), units_count_}; }
  // Whether a unit contains the box's whole extent of an axis.
  bool UnitHolds(int unit, int axis) const;
  // Bytes between cells of the same set of runs.
  int64_t BytesInside(std::span<const Run> runs) const;
  // Boxes that make up a run.
  void AppendBoxes(const Run& run, std::vector<Box>& boxes) const;

 private:
  struct Digit {
    int axis = 0;
    int degree = 1;
    int stride = 1;  // in positions
    int step = 1;    // of the coordinate
  };
  // Positions p and p + shift for each p whose low digit (of the axis, inside a tile) is the last
  // one or not, and whose high digit (of the axis, among tiles) likewise.
  struct Pairs {
    int64_t bytes = 0;  // of each
    int shift = 0;
    bool within_tile = false;  // low not last, any high; else low last and
    bool around = false;       // high last, or not
    Digit low, high;
    int block = 0;  // p of one value of the high digit
  };
  using Ranges = std::array<std::array<int, 2>, 2 * kAxes>;

  Digit Add(int axis, int degree, int step);
  void FindPairs(int axis);
  static int Below(int position, const Pairs& pairs);
  static int Count(std::span<const Run> runs, const Pairs& pairs);
  void Decompose(int level, int begin, int end, Ranges& ranges, std::vector<Box>& boxes) const;

  const Grid& grid_;
  const Box box_;
  const Axes tile_;
  int cells_ = 1;
  std::array<Digit, 2 * kAxes> digits_;  // fastest first, those of a tile before the others
  int digits_count_ = 0;
  int tile_digits_ = 0;
  std::array<Digit, kAxes> low_, high_;  // by axis; of degree 1 where it has none
  std::array<Pairs, 3 * kAxes> pairs_;
  int pairs_count_ = 0;
  std::array<int, kAxes + 1> units_;
  size_t units_count_ = 0;
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_TILING_H_
