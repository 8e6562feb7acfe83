// What the issuing thread, the lanes and onlookers of an engine share: failure, and where every
// stream stands.
#ifndef STRATA_WORKER_ENGINE_RUN_STATE_H_
#define STRATA_WORKER_ENGINE_RUN_STATE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "common/clock.h"
#include "device/queue_device.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

class RunState {
 public:
  // Pointers are borrowed and may be null; then the clock is the monotonic one.
  RunState(const common::Clock* clock, collectives::Communicator* communicator,
           Accelerator* accelerator, ProgressSink* progress, absl::Span<TraceRecord> trace);

  // ---- Any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status error();
  // The first failure counts; it cancels the communicator, and the device's communication. It is
  // known (failed()) before, so that no stream or thread goes on from an operation that was cut off
  // without a failure to see. What is issued already passes through its lane without effect.
  void Fail(absl::Status status);
  double Now() const { return clock_->Now(); }

  // Where a stream stands: actions of the run that were issued and that have ended, and the one
  // that runs (-1: none). A run is a row of steps of one program. Approximate while they change.
  int active_program() const { return active_program_.load(std::memory_order_acquire); }
  int64_t issued(int stream) const { return issued_[stream].load(std::memory_order_acquire); }
  int64_t ended(int stream) const {
    if (queues_[stream] != nullptr) return EndedOnQueue(stream);
    return ended_[stream].load(std::memory_order_acquire);
  }
  int running(int stream) const { return running_[stream].load(std::memory_order_acquire); }

  // Whether a device's queue completes the stream; then nobody is told when its actions begin.
  bool is_queue(int stream) const { return queues_[stream] != nullptr; }

  // ---- The issuing thread.
  // Once, before anything runs. Borrowed.
  void SetQueues(const std::array<device::QueueStream*, program::kStreamCount>& queues) {
    queues_ = queues;
  }
  // Begins a run: nothing may be under way.
  void BeginRun(int program);
  void NoteIssued(int stream) { Increment(issued_[stream]); }
  // What a queue is to count up to when all that was issued has ended.
  uint32_t CountOf(int stream) const {
    return counted_before_[stream].load(std::memory_order_relaxed) +
           static_cast<uint32_t>(issued(stream));
  }

  // ---- The stream's lane.
  // Returns the time.
  double Begin(int stream, int program, int action);
  // Returns the time.
  double Finish(int stream, int program, int action, int64_t step, double begin);
  // It did not take place.
  void Skip(int program, int action, int64_t step);
  void NoteEnded(int stream) {
    running_[stream].store(-1, std::memory_order_relaxed);
    Increment(ended_[stream]);
  }
  void AddBackgroundTime(int purpose, double seconds);
  void AddTransfer(int stream, double seconds, int64_t bytes);
  // Sets the metrics' background times and transfers to those since the last call.
  void TakeBackground(StepMetrics& metrics);

 private:
  // Less than 2³² actions are under way. What was counted is read first: it does not outrun what
  // was issued.
  int64_t EndedOnQueue(int stream) const {
    const uint32_t counted = queues_[stream]->counted();
    return issued(stream) - static_cast<int64_t>(CountOf(stream) - counted);
  }
  void Trace(const TraceRecord& record);
  // One thread writes each counter.
  static void Increment(std::atomic<int64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  const common::Clock* clock_;
  collectives::Communicator* communicator_;
  Accelerator* accelerator_;
  ProgressSink* progress_;
  absl::Span<TraceRecord> trace_;
  std::atomic<uint64_t> traced_{0};

  std::array<std::atomic<int64_t>, program::kStreamCount> issued_{}, ended_{};
  std::array<std::atomic<int>, program::kStreamCount> running_{};
  std::array<std::atomic<int64_t>, program::kPurposeCount> background_ns_{};
  std::array<std::atomic<int64_t>, program::kStreamCount> moving_ns_{}, moved_{};
  std::atomic<int> active_program_{-1};
  std::array<device::QueueStream*, program::kStreamCount> queues_{};
  std::array<std::atomic<uint32_t>, program::kStreamCount> counted_before_{};  // the run

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  absl::Status error_;  // guarded by mutex_
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_RUN_STATE_H_
