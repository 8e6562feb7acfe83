// Whether what a job's ranks hold fits, and if not, where.
#ifndef STRATA_PLANNER_FIT_VERDICT_H_
#define STRATA_PLANNER_FIT_VERDICT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/fit/memory_of_job.h"

namespace strata::planner {

struct Verdict {
  bool fits = true;
  // The tightest of what has a limit: bytes needed and there, of one rank or, on the machine itself
  // or on SSD, of those that share it. No limits at all: 0 and 0.
  std::string
      place;        // "device of rank 3", "host memory of rank 0", "this machine", "SSD of a node"
  std::string key;  // of the job file, where it is the limit: "memory.device"; else empty
  int64_t needed = 0, limit = 0;
  ByteClass most = ByteClass::kParameters;  // what takes most of it

  std::string ToText() const;
};

Verdict Judge(const FitRequest& request, const MemoryOfJob& memory);

// A request for a device of its own: `memory` says how much of it Strata may have, which is what
// the runtime leaves. Other requests stay as they are.
void CompleteRequest(FitRequest& request);

// Memory and verdict at once.
struct Fit {
  MemoryOfJob memory;
  Verdict verdict;
};
absl::StatusOr<Fit> ReadFit(const FitRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_VERDICT_H_
