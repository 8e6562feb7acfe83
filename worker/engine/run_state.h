// What the main thread and the progress thread of an engine share.
#ifndef STRATA_WORKER_ENGINE_RUN_STATE_H_
#define STRATA_WORKER_ENGINE_RUN_STATE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "common/clock.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Steps handed to the progress thread. A run is a row of steps of one program; places and steps
// count from 0 in it. At most two steps are under way.
struct Submission {
  int64_t run = 0;
  int program = -1;
  const BoundProgram* bound = nullptr;
  int64_t first_step = 0;             // of the program, when the run began: for the trace
  int64_t steps = 0;                  // of the run, to be executed
  std::array<int64_t, 2> variants{};  // of step s at s % 2
};

// Where a stream stands.
enum class Stage : int64_t { kIdle, kHeld, kRunning };
struct Position {
  Stage stage = Stage::kIdle;
  int action = -1;
};

class RunState {
 public:
  // Pointers are borrowed; all but the clock may be null.
  RunState(const common::Clock* clock, collectives::Communicator* communicator,
           ProgressSink* progress, absl::Span<TraceRecord> trace)
      : clock_(clock), communicator_(communicator), progress_(progress), trace_(trace) {}

  // ---- Ends: how many actions of the run each stream has ended. One thread writes each stream.
  bool Met(const BoundProgram& program, const BoundDependency& dependency, int64_t step) const {
    const int64_t place =
        (step - dependency.steps_back) * program.lengths[dependency.stream] + dependency.place;
    return ended_[dependency.stream].load(std::memory_order_acquire) > place;
  }
  int64_t ended(int stream) const { return ended_[stream].load(std::memory_order_acquire); }
  void End(int stream) {
    ended_[stream].store(ended_[stream].load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  }

  // ---- Main thread.
  // Begins a run: nothing may be under way.
  void BeginRun(int program, const BoundProgram* bound, int64_t first_step);
  // Hands over one more step of the run.
  void Submit(int64_t variant);
  // Sleeps until `done()` or failure; NotifyMain makes it look again.
  template <typename Done>
  absl::Status WaitOnMain(const Done& done) {
    std::unique_lock lock(mutex_);
    main_wakes_.wait(lock, [&] { return failed() || done(); });
    return error_;
  }
  void WakeBackground();
  void Stop();

  // ---- Progress thread.
  Submission submission();
  bool stopping();
  void NotifyMain();
  // Sleeps until there may be something to do.
  void SleepInBackground();
  // Sleeps until Stop.
  void SleepUntilStop();

  // ---- Any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status error();
  // The first failure counts; it cancels the communicator and wakes both threads.
  void Fail(absl::Status status);
  // The program of the run and the place of a stream in it; approximate while they change.
  int active_program() const { return active_program_.load(std::memory_order_acquire); }
  Position position(int stream) const;

  // ---- Records, by whoever executes the stream.
  void Hold(const BoundAction& action) { SetPosition(action.stream, Stage::kHeld, action.action); }
  // Returns the time.
  double Begin(const BoundAction& action, int program);
  // Returns the seconds since begin.
  double Finish(const BoundAction& action, int program, int64_t step, double begin);
  void Rest(int stream) { SetPosition(stream, Stage::kIdle, 0); }
  void AddBackgroundTime(program::Purpose purpose, double seconds);
  // Seconds per purpose since the last call.
  StepMetrics::ByPurpose TakeBackgroundTimes();
  double Now() const { return clock_->Now(); }

 private:
  void SetPosition(int stream, Stage stage, int action) {
    positions_[stream].store(static_cast<int64_t>(action) * 4 + static_cast<int64_t>(stage),
                             std::memory_order_relaxed);
  }

  const common::Clock* clock_;
  collectives::Communicator* communicator_;
  ProgressSink* progress_;
  absl::Span<TraceRecord> trace_;
  std::atomic<int64_t> traced_{0};

  std::array<std::atomic<int64_t>, program::kStreamCount> ended_{};
  std::array<std::atomic<int64_t>, program::kStreamCount> positions_{};
  std::array<std::atomic<int64_t>, program::kPurposeCount> background_ns_{};
  std::atomic<int> active_program_{-1};
  std::atomic<bool> failed_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable main_wakes_, background_wakes_;
  Submission submission_;
  bool woken_ = false;  // without a communicator: the progress thread has to look again
  bool stopping_ = false;
  absl::Status error_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_RUN_STATE_H_
