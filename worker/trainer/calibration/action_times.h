// How long a device takes for each action of a step, by its own clock.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_ACTION_TIMES_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_ACTION_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/ir/program.h"
#include "worker/engine/issue_observer.h"
#include "worker/engine/step_metrics.h"
#include "worker/trainer/calibration/head_start.h"

namespace strata::worker {

// Marks the time before and after what the compute stream is handed for an action of the first
// program. Of an engine whose accelerator makes no graphs. On the engine's thread.
class ActionTimes final : public IssueObserver {
 public:
  // Borrowed: the device, and its head start, which each step's compute gets.
  static absl::StatusOr<std::unique_ptr<ActionTimes>> Create(device::QueueDevice* device,
                                                             const HeadStart* head_start);

  // From the next step on, of this set's engine. Before that it marks nothing.
  void Watch(const program::ProgramSet& set);
  // Of the steps since the last call, after Engine::Drain: actions of the compute stream, each from
  // 0 to what it took, and nothing else.
  absl::StatusOr<std::vector<TraceRecord>> Take();

  void Bound(const IssuedAction&, std::string, std::vector<BoundAccess>) override {}
  void Issue(const IssuedAction& what, device::Stream& stream) override;
  void Issued() override;

 private:
  struct Timed {
    int32_t action = 0;
    int64_t step = 0;
    std::unique_ptr<device::TimeMark> begin, end;
  };

  ActionTimes(device::QueueDevice* device, const HeadStart* head_start)
      : device_(device), head_start_(head_start) {}
  absl::Status MeasureMarks();
  absl::Status Begin(const IssuedAction& what);
  absl::StatusOr<Timed*> Next();

  device::QueueDevice* const device_;
  const HeadStart* const head_start_;
  double between_marks_ = 0;      // with nothing between them
  std::vector<bool> is_compute_;  // by action; empty: nothing is watched
  std::vector<Timed> timed_;      // the first `used_`; marks stay for later steps
  size_t used_ = 0;
  int64_t last_step_ = -1;
  device::QueueStream* queue_ = nullptr;  // of the action that is being handed over
  absl::Status error_;                    // the first error
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_ACTION_TIMES_H_
