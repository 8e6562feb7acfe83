#include "program/passes/placement.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/units.h"

namespace strata::program {
namespace {

bool Overlap(const Interval& a, const Interval& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

Packing Pack(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });
  Packing packing{std::vector<int64_t>(intervals.size(), 0), 0};
  std::vector<int> placed;  // by offset
  for (const int i : order) {
    const Interval& interval = intervals[i];
    if (interval.last < interval.first || interval.bytes == 0) continue;
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), free_from = 0;
    for (const int other : placed) {
      if (!Overlap(interval, intervals[other])) continue;
      const int64_t begin = common::RoundUp(free_from, interval.alignment);
      const int64_t gap = packing.offsets[other] - begin;
      if (gap >= interval.bytes && gap < best_gap) best = begin, best_gap = gap;
      free_from = std::max(free_from, packing.offsets[other] + intervals[other].bytes);
    }
    if (best < 0) best = common::RoundUp(free_from, interval.alignment);
    packing.offsets[i] = best;
    packing.bytes = std::max(packing.bytes, best + interval.bytes);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), best,
        [&](int64_t offset, int other) { return offset < packing.offsets[other]; });
    placed.insert(at, i);
  }
  return packing;
}

}  // namespace strata::program
