#include "program/passes/placement.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;

std::vector<Interval> RandomIntervals(Dice& dice, int count, int positions) {
  std::vector<Interval> intervals(count);
  for (Interval& interval : intervals) {
    interval.bytes = dice.OneIn(10) ? 0 : 1 + dice(1000);
    interval.alignment = int64_t{1} << dice(8);
    if (dice.OneIn(20)) continue;  // never used
    interval.Include(dice(positions));
    interval.Include(std::min(positions - 1, interval.first + dice(positions / 4 + 1)));
    interval.lane = dice(3);
    if (dice.OneIn(2)) continue;  // not held
    interval.held = std::min(positions - 1, interval.last + dice(5));
    interval.held_by = dice(4) - 1;
  }
  return intervals;
}

TEST(PackTest, NoTwoOverlapAndAllAreAlignedAndNoneGoesBelowTheLiveBytes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const int positions = 1 + dice(60);
    const std::vector<Interval> intervals = RandomIntervals(dice, 1 + dice(80), positions);
    const Packing packing = Pack(intervals);
    ASSERT_EQ(packing.offsets.size(), intervals.size());
    std::vector<int64_t> live(positions, 0);
    int64_t end = 0;
    for (size_t a = 0; a < intervals.size(); ++a) {
      if (!intervals[a].used()) continue;
      const int64_t begin = packing.offsets[a];
      ASSERT_GE(begin, 0);
      ASSERT_EQ(begin % intervals[a].alignment, 0) << "seed " << seed;
      end = std::max(end, begin + intervals[a].bytes);
      for (int p = intervals[a].first; p <= intervals[a].last; ++p) live[p] += intervals[a].bytes;
      for (size_t b = 0; b < a; ++b) {
        if (!Conflict(intervals[a], intervals[b])) continue;
        ASSERT_TRUE(begin + intervals[a].bytes <= packing.offsets[b] ||
                    packing.offsets[b] + intervals[b].bytes <= begin)
            << "seed " << seed << ": " << b << " and " << a;
      }
    }
    ASSERT_EQ(packing.bytes, end) << "seed " << seed;
    ASSERT_GE(packing.bytes, *std::max_element(live.begin(), live.end()));
  }
}

// The rule itself, looking at every placed interval each time.
std::vector<int64_t> BestFitBySize(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });
  std::vector<int64_t> offsets(intervals.size(), 0);
  std::vector<int> placed;
  for (const int i : order) {
    if (!intervals[i].used()) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const int other : placed) {
      if (Conflict(intervals[i], intervals[other]))
        taken.emplace_back(offsets[other], offsets[other] + intervals[other].bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t free_from = 0, best = -1, best_gap = 0;
    const auto aligned = [&] {
      return (free_from + intervals[i].alignment - 1) / intervals[i].alignment *
             intervals[i].alignment;
    };
    for (const auto& [begin, end] : taken) {
      const int64_t gap = begin - aligned();
      if (gap >= intervals[i].bytes && (best < 0 || gap < best_gap))
        best = aligned(), best_gap = gap;
      free_from = std::max(free_from, end);
    }
    offsets[i] = best < 0 ? aligned() : best;
    placed.push_back(i);
  }
  return offsets;
}

TEST(PackTest, OffsetsAreThoseOfTheRule) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    Dice dice(seed);
    const std::vector<Interval> intervals = RandomIntervals(dice, 1 + dice(120), 1 + dice(60));
    ASSERT_EQ(Pack(intervals).offsets, BestFitBySize(intervals)) << "seed " << seed;
  }
}

TEST(PackTest, SmallIntervalTakesTheTightestGap) {
  // The last one fits where the second was, which has ended.
  const std::vector<Interval> intervals = {{.first = 0, .last = 9, .bytes = 100},
                                           {.first = 0, .last = 4, .bytes = 50},
                                           {.first = 0, .last = 9, .bytes = 40},
                                           {.first = 5, .last = 9, .bytes = 10}};
  EXPECT_THAT(Pack(intervals).offsets, ElementsAre(0, 100, 150, 100));
  EXPECT_EQ(Pack(intervals).bytes, 190);
}

TEST(ConflictTest, WhatIsHeldGoesToItsOwnLaneOnly) {
  const Interval held{.first = 0, .last = 2, .held = 5, .lane = 1, .held_by = 1, .bytes = 8};
  const auto at = [](int first, int lane) {
    return Interval{.first = first, .last = 9, .lane = lane, .bytes = 8};
  };
  EXPECT_TRUE(Conflict(held, at(2, 1)));
  EXPECT_FALSE(Conflict(held, at(3, 1)));
  EXPECT_TRUE(Conflict(held, at(3, 0)));
  EXPECT_TRUE(Conflict(at(5, 0), held));
  EXPECT_FALSE(Conflict(held, at(6, 0)));
  EXPECT_FALSE(Conflict(at(0, 0), {.first = 3, .last = 4}));  // it has no bytes
}

TEST(PackTest, NothingNeedsNothing) {
  EXPECT_EQ(Pack({}).bytes, 0);
  EXPECT_EQ(Pack({{.bytes = 64}}).bytes, 0);
}

TEST(IntervalTest, IncludeWidensInBothDirections) {
  Interval interval;
  interval.Include(5);
  interval.Include(3);
  interval.Include(9);
  EXPECT_EQ(interval.first, 3);
  EXPECT_EQ(interval.last, 9);
}

}  // namespace
}  // namespace strata::program
