// What a step took, by purpose, and where its actions are recorded for others to see.
#ifndef STRATA_WORKER_ENGINE_STEP_METRICS_H_
#define STRATA_WORKER_ENGINE_STEP_METRICS_H_

#include <array>
#include <cstdint>

#include "program/ir/types.h"
#include "protocol/trace_record.h"

namespace strata::worker {

// Of one step; seconds by purpose, and by stream.
struct StepMetrics {
  using ByPurpose = std::array<double, program::kPurposeCount>;
  using ByStream = std::array<double, program::kStreamCount>;

  double total = 0;        // RunStep, begin to end
  ByPurpose compute{};     // running on the compute stream
  ByPurpose exposed{};     // compute stood and waited for an action of this purpose
  ByPurpose background{};  // all other streams' actions, start to end; what ends after its step
                           // counts in the step in which it ends
  // What compute stood for, by the stream that was at work then: that of the action it waited for,
  // and before that one began, of what it had waited for itself. Sums to what `exposed` sums to.
  ByStream stalled{};
  // Of streams that move bytes between tiers, counted like `background`.
  ByStream moving{};                                   // begin to end
  std::array<int64_t, program::kStreamCount> moved{};  // bytes

  // Communication (and host work) that nothing hid: all that compute waited.
  double exposed_communication() const {
    double sum = 0;
    for (const double seconds : exposed) sum += seconds;
    return sum;
  }
};

// One action that is over. Times are the engine's clock's; one that did not take place, its
// predicate being false, ends when it begins.
using protocol::TraceRecord;

// Told of every action as it happens, for the progress file that another process reads. Called by
// the lanes, each stream by one of them only, and, of a device's queues, by a thread that looks at
// them now and then (queue_watch.h). Must be cheap (a relaxed store) and must not fail.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void Begin(program::Stream stream, int program, int action) = 0;
  virtual void End(program::Stream stream, int program, int action) = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_STEP_METRICS_H_
