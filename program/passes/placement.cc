#include "program/passes/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "common/units.h"
#include "program/passes/taken_space.h"

namespace strata::program {
namespace {

// `later` begins while `held` is kept from it.
bool Holds(const Interval& held, const Interval& later) {
  return later.first > held.last && later.first <= held.held && later.lane != held.held_by;
}

// All that is placed, by the lane that begins it and by the lane that holds it.
class Taken {
 public:
  explicit Taken(int positions) : positions_(positions) {}

  void Take(const Interval& interval, ByteRange bytes) {
    Space(alive_, interval.lane).Take(interval.first, interval.last, bytes);
    if (interval.held > interval.last) {
      Space(held_, interval.held_by).Take(interval.last + 1, interval.held, bytes);
    }
  }

  // What an interval conflicts with: sorted, possibly overlapping.
  const std::vector<ByteRange>& Against(const Interval& interval) {
    found_.clear();
    for (const auto& [lane, space] : alive_) {
      const bool held_too = interval.held > interval.last && lane != interval.held_by;
      space.Collect(interval.first, held_too ? interval.held : interval.last, found_);
    }
    for (const auto& [lane, space] : held_) {
      // Where it began before the other's last use, that one is alive there too.
      if (lane != interval.lane) space.Collect(interval.first, interval.first, found_);
    }
    std::sort(found_.begin(), found_.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    return found_;
  }

 private:
  using Lanes = std::map<int, TakenSpace>;
  TakenSpace& Space(Lanes& lanes, int lane) {
    return lanes.try_emplace(lane, positions_).first->second;
  }

  const int positions_;
  Lanes alive_, held_;
  std::vector<ByteRange> found_;
};

}  // namespace

bool Conflict(const Interval& a, const Interval& b) {
  if (!a.used() || !b.used()) return false;
  return (a.first <= b.last && b.first <= a.last) || Holds(a, b) || Holds(b, a);
}

Packing Pack(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });
  int positions = 0;
  for (const Interval& interval : intervals) {
    positions = std::max({positions, interval.last + 1, interval.held + 1});
  }
  Packing packing{std::vector<int64_t>(intervals.size(), 0), 0};
  Taken taken(positions);
  for (const int i : order) {
    const Interval& interval = intervals[i];
    if (!interval.used()) continue;
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), free_from = 0;
    for (const ByteRange& other : taken.Against(interval)) {
      const int64_t begin = common::RoundUp(free_from, interval.alignment);
      const int64_t gap = other.begin - begin;
      if (gap >= interval.bytes && gap < best_gap) best = begin, best_gap = gap;
      free_from = std::max(free_from, other.end);
    }
    if (best < 0) best = common::RoundUp(free_from, interval.alignment);
    packing.offsets[i] = best;
    packing.bytes = std::max(packing.bytes, best + interval.bytes);
    taken.Take(interval, {best, best + interval.bytes});
  }
  return packing;
}

}  // namespace strata::program
