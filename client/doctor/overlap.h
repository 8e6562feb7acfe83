// Whether communication hides behind computation on this machine, and where pages of arenas lie:
// two ranks train a small job with `memory` for a moment, as real processes, and their step records
// tell.
#ifndef STRATA_CLIENT_DOCTOR_OVERLAP_H_
#define STRATA_CLIENT_DOCTOR_OVERLAP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/doctor/checks.h"

namespace strata::client {

// Of the arenas of a rank, those of device and host together (docs/memory.md).
struct ArenaFacts {
  int64_t bytes = 0;  // 0: nothing was measured
  int64_t locked_bytes = 0, huge_bytes = 0;
  std::optional<int64_t> misplaced_bytes;  // absent: the machine has one NUMA node, or does not say
  std::string lacks;                       // what the system refused, and what to do about it
};

struct OverlapFacts {
  std::string problem;  // why nothing was measured; empty: it was
  bool interrupted = false;
  int cores = 0;                     // usable by this process
  int steps = 0;                     // measured, the first ones left out
  double communication_seconds = 0;  // of these steps, on rank 0, begin to end
  double exposed_seconds = 0;        // of these, the computation waited
  ArenaFacts arenas;                 // of the last step
};

// Takes at most about `most_seconds` and a second, and leaves nothing behind.
OverlapFacts MeasureOverlap(double most_seconds = 9);

Finding JudgeOverlap(const OverlapFacts& facts);
Finding JudgeArenas(const ArenaFacts& facts);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DOCTOR_OVERLAP_H_
