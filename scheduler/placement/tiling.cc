#include "scheduler/placement/tiling.h"

#include <algorithm>

namespace strata::scheduler {
namespace {

// Of the positions below `position`: those whose digit is the last one.
int LastBelow(int position, int degree, int stride) {
  if (degree == 1) return position;
  const int period = degree * stride;
  const int rest = position % period - (degree - 1) * stride;
  return position / period * stride + std::max(0, rest);
}

}  // namespace

Tiling::Tiling(const Grid& grid, const Box& box, const Axes& tile, const Axes& inner,
               const Axes& outer)
    : grid_(grid), box_(box), tile_(tile) {
  units_[units_count_++] = 1;
  for (const int axis : inner) {
    low_[axis] = Add(axis, tile[axis], 1);
    if (cells_ > units_[units_count_ - 1]) units_[units_count_++] = cells_;
  }
  std::reverse(units_.begin(), units_.begin() + static_cast<ptrdiff_t>(units_count_));
  tile_digits_ = digits_count_;
  SetOuter(outer);
}

void Tiling::SetOuter(const Axes& outer) {
  digits_count_ = tile_digits_;
  cells_ = units_[0];
  for (const int axis : outer) {
    high_[axis] = Add(axis, box_.extent(axis) / tile_[axis], tile_[axis]);
  }
  pairs_count_ = 0;
  for (int axis = 0; axis < kAxes; ++axis) FindPairs(axis);
}

Tiling::Digit Tiling::Add(int axis, int degree, int step) {
  const Digit digit = {axis, degree, cells_, step};
  if (degree > 1) digits_[digits_count_++] = digit;
  cells_ *= degree;
  return digit;
}

void Tiling::FindPairs(int axis) {
  const Axis& of = grid_.axes[axis];
  Pairs pairs = {.low = low_[axis], .high = high_[axis]};
  const Digit& low = pairs.low;
  const Digit& high = pairs.high;
  if (low.degree * high.degree == 1) return;
  const int low_end = (low.degree - 1) * low.stride;
  // All pairs of an axis count as if they were neighbours: an estimate that keeps them together.
  if (low.degree > 1) {
    pairs.bytes = of.weight;
    pairs.shift = low.stride;
    pairs.within_tile = true;
    pairs_[pairs_count_++] = pairs;
  }
  pairs.within_tile = false;
  pairs.block = LastBelow(high.stride, low.degree, low.stride);
  if (high.degree > 1) {
    pairs.bytes = of.weight;
    pairs.shift = high.stride - low_end;
    pairs_[pairs_count_++] = pairs;
  }
  if (of.closing == 0 || low.degree * high.degree < of.degree) return;
  pairs.bytes = of.closing;
  pairs.shift = -low_end - (high.degree - 1) * high.stride;
  pairs.around = true;
  pairs_[pairs_count_++] = pairs;
}

bool Tiling::UnitHolds(int unit, int axis) const {
  const Digit& low = low_[axis];
  return high_[axis].degree == 1 && (low.degree == 1 || low.stride * low.degree <= unit);
}

// Pairs whose p is below `position`. All of an axis' low digits are faster than its high one.
int Tiling::Below(int position, const Pairs& pairs) {
  const Digit& low = pairs.low;
  const Digit& high = pairs.high;
  if (pairs.within_tile) return position - LastBelow(position, low.degree, low.stride);
  const int period = high.degree * high.stride;
  const int rest = position % period;
  const int value = rest / high.stride;
  const bool last = value == high.degree - 1;
  const int part = last == pairs.around ? LastBelow(rest % high.stride, low.degree, low.stride) : 0;
  const int blocks = pairs.around
                         ? position / period
                         : position / period * (high.degree - 1) + std::min(value, high.degree - 1);
  return blocks * pairs.block + part;
}

// Pairs with both ends in the runs.
int Tiling::Count(std::span<const Run> runs, const Pairs& pairs) {
  int count = 0;
  for (const Run& a : runs) {
    for (const Run& b : runs) {
      const int begin = std::max(a.begin, b.begin - pairs.shift);
      const int end = std::min(a.end, b.end - pairs.shift);
      if (begin < end) count += Below(end, pairs) - Below(begin, pairs);
    }
  }
  return count;
}

int64_t Tiling::BytesInside(std::span<const Run> runs) const {
  int64_t bytes = 0;
  for (int i = 0; i < pairs_count_; ++i) bytes += pairs_[i].bytes * Count(runs, pairs_[i]);
  return bytes;
}

void Tiling::AppendBoxes(const Run& run, std::vector<Box>& boxes) const {
  Ranges ranges;
  for (int i = 0; i < digits_count_; ++i) ranges[i] = {0, digits_[i].degree};
  Decompose(digits_count_ - 1, run.begin, run.end, ranges, boxes);
}

// Positions [begin, end) of a block of the digits up to `level`: its incomplete first and last
// values of that digit by themselves, what is between them as one box.
void Tiling::Decompose(int level, int begin, int end, Ranges& ranges,
                       std::vector<Box>& boxes) const {
  if (begin == end) return;
  const int size = level < 0 ? 1 : digits_[level].stride * digits_[level].degree;
  if (end - begin == size) {
    Box box = box_;
    for (int i = 0; i < kAxes; ++i) box.to[i] = box.from[i] + 1;
    for (int i = 0; i < digits_count_; ++i) {
      const Digit& digit = digits_[i];
      box.from[digit.axis] += ranges[i][0] * digit.step;
      box.to[digit.axis] += (ranges[i][1] - 1) * digit.step;
    }
    boxes.push_back(box);
    return;
  }
  const Digit& digit = digits_[level];
  const auto part = [&](int first, int last, int inside_begin, int inside_end) {
    ranges[level] = {first, last};
    Decompose(level - 1, inside_begin, inside_end, ranges, boxes);
    ranges[level] = {0, digit.degree};
  };
  int first = begin / digit.stride;
  const int last = end / digit.stride;
  const int head = begin % digit.stride;
  const int tail = end % digit.stride;
  if (first == last) return part(first, first + 1, head, tail);
  if (head > 0) {
    part(first, first + 1, head, digit.stride);
    ++first;
  }
  if (first < last) part(first, last, 0, digit.stride);
  if (tail > 0) part(last, last + 1, 0, tail);
}

}  // namespace strata::scheduler
