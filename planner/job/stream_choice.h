// How many layers of a job whose parameters live beyond the device are on it at once, where the job
// leaves it open (memory.stream: auto).
#ifndef STRATA_PLANNER_JOB_STREAM_CHOICE_H_
#define STRATA_PLANNER_JOB_STREAM_CHOICE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "program/compose/composer.h"
#include "program/readers/timeline.h"

namespace strata::planner {

// That fewer resident layers may make a step longer, beside what streaming can do at best.
inline constexpr double kStreamSlowDown = 0.05;

// Of a machine that was not measured: a few cores, or a GPU of a data centre.
program::Rates OrdinaryRates(bool accelerator);

struct StreamChoice {
  // Where a limit decided there are no seconds.
  struct Look {
    program::Streaming streaming;
    double seconds = 0;        // of a step, as the timeline predicts it
    double stall_seconds = 0;  // of them, compute waits for bytes from other tiers
    int64_t device_bytes = 0;  // of the stage that needs most
  };
  int layers = 0;  // of the model, the embedding and the head among them
  bool limited = false;
  Look chosen;
  Look most;  // all layers but one; where no limit decided
};

// Nothing: no parameters are streamed, or the plan says how. With Plan::device_limit as many layers
// as fit; without, the least device bytes with which a step takes at most kStreamSlowDown longer
// than with all layers but one. One of them moves at a time (k' = 1). More layers resident, or one
// moved at a time, may be 2 % slower where copies happen to meet otherwise, which is not worth
// looking at every number of each. The same on every stage. Errors: the composer's and the
// timeline's.
absl::StatusOr<std::optional<StreamChoice>> ChooseStreaming(const program::Decision& decision,
                                                            const program::UpdateEmitter& update,
                                                            const program::CostModel& costs);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_JOB_STREAM_CHOICE_H_
