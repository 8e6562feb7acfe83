// How far ranks that compute drift apart, as their waits for each other tell.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_DRIFT_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_DRIFT_H_

#include <vector>

#include "absl/types/span.h"
#include "program/ir/program.h"
#include "program/readers/timeline.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Of one step, or of several, of one rank or of several.
struct Waits {
  double seconds = 0;  // that compute waited for collectives, beyond what these take
  double roots = 0;    // the sum, over these waits, of √(seconds of compute since the one before)
};

// Of `steps` steps from `first_step` on, of the first program of `set`, in their order. `trace` has
// all actions of these steps; `costs`: what collectives take whose members come at once.
std::vector<Waits> WaitsForOthers(const program::ProgramSet& set,
                                  absl::Span<const TraceRecord> trace, int64_t first_step,
                                  int64_t steps, const program::CostModel& costs);

// RankProfile.drift, in √seconds: the median; 0 if none waits.
double DriftOf(absl::Span<const Waits> all);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_DRIFT_H_
