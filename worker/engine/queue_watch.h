// Tells where a device's queues stand to whoever follows the streams of an engine.
#ifndef STRATA_WORKER_ENGINE_QUEUE_WATCH_H_
#define STRATA_WORKER_ENGINE_QUEUE_WATCH_H_

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/engine/accelerator.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/run_state.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Lanes tell of every action as it happens; a queue tells nobody. A thread looks at what queues
// have counted, ten times a second: the first action that has not ended is the one that a queue is
// at, whether it runs or waits. It asks after errors of the device's communication too, which end
// no wait by themselves: they fail the engine, which lets the streams go.
class QueueWatch {
 public:
  // Looks until it is destroyed. All borrowed; `progress` may be null.
  QueueWatch(RunState* state, const std::vector<BoundProgram>* bound, Accelerator* accelerator,
             ProgressSink* progress);
  ~QueueWatch();
  QueueWatch(const QueueWatch&) = delete;
  QueueWatch& operator=(const QueueWatch&) = delete;

 private:
  struct Place {
    int program = -1, action = -1;  // -1: at none
    bool operator==(const Place&) const = default;
  };
  void Watch();
  void Look(int stream);
  Place PlaceOf(int stream) const;

  RunState* const state_;
  const std::vector<BoundProgram>* const bound_;
  Accelerator* const accelerator_;
  ProgressSink* const progress_;
  std::array<Place, program::kStreamCount> told_;

  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_QUEUE_WATCH_H_
