// Whether communication hides behind computation on this machine: two ranks train a small job for a
// moment, as real processes, and their step records tell.
#ifndef STRATA_CLIENT_DOCTOR_OVERLAP_H_
#define STRATA_CLIENT_DOCTOR_OVERLAP_H_

#include <string>

#include "client/doctor/checks.h"

namespace strata::client {

struct OverlapFacts {
  std::string problem;  // why nothing was measured; empty: it was
  bool interrupted = false;
  int cores = 0;                     // usable by this process
  int steps = 0;                     // measured, the first ones left out
  double communication_seconds = 0;  // of these steps, on rank 0, begin to end
  double exposed_seconds = 0;        // of these, the computation waited
};

// Takes at most about `most_seconds` and a second, and leaves nothing behind.
OverlapFacts MeasureOverlap(double most_seconds = 9);

Finding JudgeOverlap(const OverlapFacts& facts);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DOCTOR_OVERLAP_H_
