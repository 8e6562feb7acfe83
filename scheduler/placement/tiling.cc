#include "scheduler/placement/tiling.h"

#include <algorithm>

namespace strata::scheduler {
namespace {

// Of the positions below `position`: those whose digit is the last one.
int64_t LastBelow(int64_t position, int64_t degree, int64_t stride) {
  const int64_t period = degree * stride;
  const int64_t rest = position % period - (degree - 1) * stride;
  return position / period * stride + std::max<int64_t>(0, rest);
}

}  // namespace

Tiling::Tiling(const Grid& grid, const Box& box, const std::array<int, kAxes>& tile,
               const std::array<int, kAxes>& inner, const std::array<int, kAxes>& outer)
    : grid_(grid), box_(box) {
  units_.push_back(1);
  const auto add = [&](int axis, int degree, int step) {
    const Digit digit = {axis, degree, cells_, step};
    if (degree > 1) digits_.push_back(digit);
    cells_ *= degree;
    return digit;
  };
  for (const int axis : inner) {
    by_axis_[axis].low = add(axis, tile[axis], 1);
    if (cells_ > units_.back()) units_.push_back(cells_);
  }
  for (const int axis : outer) {
    by_axis_[axis].high = add(axis, box.extent(axis) / tile[axis], tile[axis]);
  }
  std::reverse(units_.begin(), units_.end());
}

bool Tiling::UnitHolds(int64_t unit, int axis) const {
  const Digits& digits = by_axis_[axis];
  return digits.high.degree == 1 &&
         (digits.low.degree == 1 || digits.low.stride * digits.low.degree <= unit);
}

// Positions below `position` whose digits fulfil the conditions. All of an axis' low digits are
// faster than its high one.
int64_t Tiling::Below(int64_t position, const Digits& digits, Condition low, Condition high) const {
  const auto count_low = [&](int64_t below) {
    if (low == Condition::kAny) return below;
    const int64_t last = LastBelow(below, digits.low.degree, digits.low.stride);
    return low == Condition::kLast ? last : below - last;
  };
  if (high == Condition::kAny) return count_low(position);
  const Digit& digit = digits.high;
  const int64_t period = digit.degree * digit.stride;
  const int64_t block = count_low(digit.stride);
  const int64_t rest = position % period;
  const int64_t value = rest / digit.stride;
  const int64_t part = count_low(rest % digit.stride);
  const int64_t last = position / period * block + (value == digit.degree - 1 ? part : 0);
  if (high == Condition::kLast) return last;
  return position / period * (digit.degree - 1) * block +
         std::min(value, digit.degree - 1) * block + (value < digit.degree - 1 ? part : 0);
}

int64_t Tiling::Edges(const std::vector<Run>& runs, int64_t shift, const Digits& digits,
                      Condition low, Condition high) const {
  int64_t edges = 0;
  for (const Run& a : runs) {
    for (const Run& b : runs) {
      const int64_t begin = std::max(a.begin, b.begin - shift);
      const int64_t end = std::min(a.end, b.end - shift);
      if (begin < end) {
        edges += Below(end, digits, low, high) - Below(begin, digits, low, high);
      }
    }
  }
  return edges;
}

int64_t Tiling::BytesInside(const std::vector<Run>& runs) const {
  int64_t bytes = 0;
  for (int i = 0; i < kAxes; ++i) {
    const Axis& axis = grid_.axes[i];
    const Digits& digits = by_axis_[i];
    const Digit& low = digits.low;
    const Digit& high = digits.high;
    if (low.degree * high.degree == 1) continue;
    const int64_t low_end = (low.degree - 1) * low.stride;
    // All pairs of an axis count as if they were neighbours: an estimate that keeps them together.
    int64_t edges = 0;
    if (low.degree > 1)
      edges += Edges(runs, low.stride, digits, Condition::kNotLast, Condition::kAny);
    if (high.degree > 1) {
      edges += Edges(runs, high.stride - low_end, digits, Condition::kLast, Condition::kNotLast);
    }
    bytes += edges * axis.weight;
    if (axis.closing == 0 || low.degree * high.degree < axis.degree) continue;
    const int64_t around = low_end + (high.degree - 1) * high.stride;
    bytes += axis.closing * Edges(runs, -around, digits, Condition::kLast, Condition::kLast);
  }
  return bytes;
}

void Tiling::AppendBoxes(const Run& run, std::vector<Box>& boxes) const {
  std::vector<std::array<int64_t, 2>> ranges;
  for (const Digit& digit : digits_) ranges.push_back({0, digit.degree});
  Decompose(static_cast<int>(digits_.size()) - 1, run.begin, run.end, ranges, boxes);
}

// Positions [begin, end) of a block of the digits up to `level`: its incomplete first and last
// values of that digit by themselves, what is between them as one box.
void Tiling::Decompose(int level, int64_t begin, int64_t end,
                       std::vector<std::array<int64_t, 2>>& ranges, std::vector<Box>& boxes) const {
  if (begin == end) return;
  const int64_t size = level < 0 ? 1 : digits_[level].stride * digits_[level].degree;
  if (end - begin == size) {
    Box box = box_;
    for (int i = 0; i < kAxes; ++i) box.to[i] = box.from[i] + 1;
    for (size_t i = 0; i < digits_.size(); ++i) {
      const Digit& digit = digits_[i];
      box.from[digit.axis] += static_cast<int>(ranges[i][0]) * digit.step;
      box.to[digit.axis] += static_cast<int>(ranges[i][1] - 1) * digit.step;
    }
    boxes.push_back(box);
    return;
  }
  const Digit& digit = digits_[level];
  const auto part = [&](int64_t first, int64_t last, int64_t inside_begin, int64_t inside_end) {
    ranges[level] = {first, last};
    Decompose(level - 1, inside_begin, inside_end, ranges, boxes);
    ranges[level] = {0, digit.degree};
  };
  int64_t first = begin / digit.stride;
  const int64_t last = end / digit.stride;
  const int64_t head = begin % digit.stride;
  const int64_t tail = end % digit.stride;
  if (first == last) return part(first, first + 1, head, tail);
  if (head > 0) {
    part(first, first + 1, head, digit.stride);
    ++first;
  }
  if (first < last) part(first, last, 0, digit.stride);
  if (tail > 0) part(last, last + 1, 0, tail);
}

}  // namespace strata::scheduler
