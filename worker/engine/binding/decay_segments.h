// Where weight decay begins and ends in the range of an update.
#ifndef STRATA_WORKER_ENGINE_BINDING_DECAY_SEGMENTS_H_
#define STRATA_WORKER_ENGINE_BINDING_DECAY_SEGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/units.h"
#include "ops/attributes.h"

namespace strata::worker {

// A run of elements that one call of the kernel updates.
struct DecaySegment {
  int64_t begin = 0, end = 0;  // within the op's range
  bool decay = false;
};

// Cuts [first, first + count) of the flat layout where weight decay begins and ends. Tensors begin
// at multiples of `alignment` elements, so an end is moved over the padding behind it: padding
// stays zero, and cuts are then the same for every way the set is sharded.
inline std::vector<DecaySegment> CutAtDecay(const std::vector<ops::Range>& ranges, int64_t first,
                                            int64_t count, int64_t alignment = 16) {
  std::vector<DecaySegment> segments;
  int64_t next = 0;
  for (const auto& [range_begin, range_end] : ranges) {
    const int64_t begin = std::max(range_begin - first, next);
    const int64_t end = std::min(common::RoundUp(range_end, alignment) - first, count);
    if (begin >= end) continue;
    if (begin > next) segments.push_back({next, begin, false});
    segments.push_back({begin, end, true});
    next = end;
  }
  if (next < count) segments.push_back({next, count, false});
  return segments;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_DECAY_SEGMENTS_H_
