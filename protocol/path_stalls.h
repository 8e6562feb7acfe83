// Whose fault a stall for the SSD tier is, of the paths that it is striped over.
#ifndef STRATA_PROTOCOL_PATH_STALLS_H_
#define STRATA_PROTOCOL_PATH_STALLS_H_

#include <vector>

#include "proto/strata/v1/standalone.pb.h"

namespace strata::protocol {

// Seconds of a step that the computation waited for a path.
struct PathStall {
  double read = 0, write = 0;
};

// Of each path of `tier`, one of the record's, in their order; they sum to what `transfers` tells
// of the streams that read, and that write, there. A transfer over stripes ends with its last path:
// as all paths begin together, each moment is shared by those that are still busy, and what the
// slowest one is busy longer than all others is its alone. Where no path was busy they share alike.
std::vector<PathStall> StallsByPath(const v1::StepRecord& record, const v1::TierMemory& tier);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_PATH_STALLS_H_
