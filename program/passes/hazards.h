// Hazards: which earlier uses of the same bytes a use must wait for when the list order is to hold.
#ifndef STRATA_PROGRAM_PASSES_HAZARDS_H_
#define STRATA_PROGRAM_PASSES_HAZARDS_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "program/ir/types.h"

namespace strata::program {

// Who touched each byte last. Bytes are numbered inside spaces (a tier's arena, or a slot of its
// own).
class HazardMap {
 public:
  // Records that `node` (its stream given) uses [begin, end) of a space, and appends to `conflicts`
  // the earlier nodes it must come after: the last writer for a read; the last writer and the
  // readers since for a write.
  void Use(int space, int64_t begin, int64_t end, Access access, int node, Stream stream,
           std::vector<int>& conflicts);

 private:
  struct Segment {
    int64_t end = 0;
    int writer = -1;
    std::array<int, kStreamCount> readers;  // the newest per stream since the write; -1: none
  };
  using Segments = std::map<int64_t, Segment>;  // by begin; no gaps inside what was used
  // Makes segment borders at begin and end, and segments for what was never used.
  Segments::iterator Cut(Segments& segments, int64_t begin, int64_t end);

  std::map<int, Segments> spaces_;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_HAZARDS_H_
