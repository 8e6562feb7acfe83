#include "worker/trainer/step_gate.h"

namespace strata::worker {

bool StepGate::Enter(int64_t step) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !asked_; });
  if (step > last_) return false;
  current_ = step;
  return true;
}

void StepGate::SetStart(int64_t step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = step;
}

int64_t StepGate::Ask() {
  const std::lock_guard<std::mutex> lock(mutex_);
  asked_ = last_ == kNever;  // who was told already is not held back again
  return current_;
}

void StepGate::StopAfter(int64_t step) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = step;
    asked_ = false;
  }
  changed_.notify_all();
}

void StepGate::Close() { StopAfter(-1); }

}  // namespace strata::worker
