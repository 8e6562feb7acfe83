// Offset assignment for intervals of list positions: two may share bytes only if they do not
// overlap in time.
#ifndef STRATA_PROGRAM_PASSES_PLACEMENT_H_
#define STRATA_PROGRAM_PASSES_PLACEMENT_H_

#include <cstdint>
#include <vector>

namespace strata::program {

// Alive from `first` to `last`, both included. Not used at all: last < first, and no bytes.
struct Interval {
  int first = 0;
  int last = -1;
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
};

struct Packing {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // end of the last one
};

// Best fit, larger intervals first (Pisarchyk and Lee, "Efficient memory management for deep neural
// net inference", MLSys 2020 workshop, "greedy by size"); O(n²).
Packing Pack(const std::vector<Interval>& intervals);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_PLACEMENT_H_
