#include "worker/engine/run_state.h"

#include <utility>

#include "absl/time/time.h"

namespace strata::worker {

void RunState::BeginRun(int program, const BoundProgram* bound, int64_t first_step) {
  std::lock_guard lock(mutex_);
  for (auto& ended : ended_) ended.store(0, std::memory_order_release);
  submission_ = {
      .run = submission_.run + 1, .program = program, .bound = bound, .first_step = first_step};
  active_program_.store(program, std::memory_order_release);
}

void RunState::Submit(int64_t variant) {
  {
    std::lock_guard lock(mutex_);
    submission_.variants[submission_.steps % 2] = variant;
    ++submission_.steps;
  }
  WakeBackground();
}

void RunState::WakeBackground() {
  if (communicator_ != nullptr) {
    communicator_->Wake();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  background_wakes_.notify_one();
}

void RunState::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  background_wakes_.notify_one();
  if (communicator_ != nullptr) communicator_->Wake();
}

Submission RunState::submission() {
  std::lock_guard lock(mutex_);
  return submission_;
}

bool RunState::stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void RunState::NotifyMain() {
  // A main thread between its look and its sleep holds the mutex: it must not miss this.
  { std::lock_guard lock(mutex_); }
  main_wakes_.notify_all();
}

void RunState::SleepInBackground() {
  if (communicator_ != nullptr) {
    communicator_->Wait(absl::Seconds(1));
    return;
  }
  std::unique_lock lock(mutex_);
  background_wakes_.wait(lock, [&] { return woken_ || stopping_ || failed(); });
  woken_ = false;
}

void RunState::SleepUntilStop() {
  std::unique_lock lock(mutex_);
  background_wakes_.wait(lock, [&] { return stopping_; });
}

absl::Status RunState::error() {
  std::lock_guard lock(mutex_);
  return error_;
}

void RunState::Fail(absl::Status status) {
  {
    std::lock_guard lock(mutex_);
    if (failed()) return;
    error_ = status;
    failed_.store(true, std::memory_order_release);
  }
  main_wakes_.notify_all();
  background_wakes_.notify_one();
  if (communicator_ != nullptr) communicator_->Cancel(std::move(status));
}

Position RunState::position(int stream) const {
  const int64_t packed = positions_[stream].load(std::memory_order_relaxed);
  return {static_cast<Stage>(packed % 4), static_cast<int>(packed / 4)};
}

double RunState::Begin(const BoundAction& action, int program) {
  SetPosition(action.stream, Stage::kRunning, action.action);
  if (progress_ != nullptr) {
    progress_->Begin(static_cast<program::Stream>(action.stream), program, action.action);
  }
  return Now();
}

double RunState::Finish(const BoundAction& action, int program, int64_t step, double begin) {
  const double end = Now();
  if (progress_ != nullptr) {
    progress_->End(static_cast<program::Stream>(action.stream), program, action.action);
  }
  if (!trace_.empty()) {
    const int64_t number = traced_.fetch_add(1, std::memory_order_relaxed);
    trace_[number % static_cast<int64_t>(trace_.size())] = {
        .program = program, .action = action.action, .step = step, .begin = begin, .end = end};
  }
  return end - begin;
}

void RunState::AddBackgroundTime(program::Purpose purpose, double seconds) {
  background_ns_[static_cast<int>(purpose)].fetch_add(static_cast<int64_t>(seconds * 1e9),
                                                      std::memory_order_relaxed);
}

StepMetrics::ByPurpose RunState::TakeBackgroundTimes() {
  StepMetrics::ByPurpose seconds{};
  for (size_t p = 0; p < seconds.size(); ++p) {
    seconds[p] =
        static_cast<double>(background_ns_[p].exchange(0, std::memory_order_relaxed)) * 1e-9;
  }
  return seconds;
}

}  // namespace strata::worker
