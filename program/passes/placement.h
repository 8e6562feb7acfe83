// Offset assignment for intervals of list positions: two may share bytes only if they do not
// overlap in time.
#ifndef STRATA_PROGRAM_PASSES_PLACEMENT_H_
#define STRATA_PROGRAM_PASSES_PLACEMENT_H_

#include <cstdint>
#include <vector>

namespace strata::program {

// Alive from `first` to `last`, both included. Not used at all: last < first, and no bytes.
// What a lane of its own uses last may be held beyond: up to `held` its bytes go only to what
// begins on that same lane, which waits for its end anyway.
struct Interval {
  int first = 0;
  int last = -1;
  int held = -1;     // at most `last`: not held
  int lane = 0;      // of the use at `first`
  int held_by = -1;  // the lane; -1: several
  int64_t bytes = 0;
  int64_t alignment = 1;

  void Include(int position) {
    if (last < first) {
      first = last = position;
    } else {
      last = position > last ? position : last;
      first = position < first ? position : first;
    }
  }
  bool used() const { return last >= first && bytes > 0; }
  bool operator==(const Interval&) const = default;
};

// Whether the two may not have a byte in common.
bool Conflict(const Interval& a, const Interval& b);

struct Packing {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // end of the last one
};

// Best fit, larger intervals first (Pisarchyk and Lee, "Efficient memory management for deep neural
// net inference", MLSys 2020 workshop, "greedy by size"). What is taken at which time is kept in
// segment trees over list positions, so that n intervals over t positions take about n log t steps
// where packing is dense.
Packing Pack(const std::vector<Interval>& intervals);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_PLACEMENT_H_
