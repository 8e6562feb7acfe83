#include "worker/engine/run_state.h"

#include <utility>

namespace strata::worker {
namespace {

const common::Clock* DefaultClock() {
  static const common::MonotonicClock clock;
  return &clock;
}

}  // namespace

RunState::RunState(const common::Clock* clock, collectives::Communicator* communicator,
                   Accelerator* accelerator, ProgressSink* progress, absl::Span<TraceRecord> trace)
    : clock_(clock == nullptr ? DefaultClock() : clock),
      communicator_(communicator),
      accelerator_(accelerator),
      progress_(progress),
      trace_(trace) {}

void RunState::BeginRun(int program) {
  active_program_.store(-1, std::memory_order_release);
  for (int s = 0; s < program::kStreamCount; ++s) {
    issued_[s].store(0, std::memory_order_relaxed);
    ended_[s].store(0, std::memory_order_relaxed);
    running_[s].store(-1, std::memory_order_relaxed);
    if (queues_[s] == nullptr) continue;
    counted_before_[s].store(queues_[s]->counted(), std::memory_order_relaxed);
  }
  active_program_.store(program, std::memory_order_release);
}

absl::Status RunState::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void RunState::Fail(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (failed()) return;
    error_ = status;
    failed_.store(true, std::memory_order_release);
  }
  if (accelerator_ != nullptr) accelerator_->AbortCommunication(status);
  if (communicator_ != nullptr) communicator_->Cancel(std::move(status));
}

double RunState::Begin(int stream, int program, int action) {
  running_[stream].store(action, std::memory_order_release);
  if (progress_ != nullptr) {
    progress_->Begin(static_cast<program::Stream>(stream), program, action);
  }
  return Now();
}

double RunState::Finish(int stream, int program, int action, int64_t step, double begin) {
  const double end = Now();
  if (progress_ != nullptr) {
    progress_->End(static_cast<program::Stream>(stream), program, action);
  }
  Trace({.step = step, .begin = begin, .end = end, .program = program, .action = action});
  return end;
}

void RunState::Skip(int program, int action, int64_t step) {
  if (trace_.empty()) return;
  const double now = Now();
  Trace({.step = step, .begin = now, .end = now, .program = program, .action = action});
}

void RunState::Trace(const TraceRecord& record) {
  if (trace_.empty()) return;
  TraceRecord numbered = record;
  numbered.number = traced_.fetch_add(1, std::memory_order_relaxed) + 1;
  protocol::Publish(numbered, trace_[(numbered.number - 1) % trace_.size()]);
}

void RunState::AddBackgroundTime(int purpose, double seconds) {
  background_ns_[purpose].fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
}

void RunState::AddTransfer(int stream, double seconds, int64_t bytes) {
  moving_ns_[stream].fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
  moved_[stream].fetch_add(bytes, std::memory_order_relaxed);
}

void RunState::TakeBackground(StepMetrics& metrics) {
  const auto take = [](std::atomic<int64_t>& counter) {
    return counter.exchange(0, std::memory_order_relaxed);
  };
  for (int p = 0; p < program::kPurposeCount; ++p) {
    metrics.background[p] = static_cast<double>(take(background_ns_[p])) * 1e-9;
  }
  for (int s = 0; s < program::kStreamCount; ++s) {
    metrics.moving[s] = static_cast<double>(take(moving_ns_[s])) * 1e-9;
    metrics.moved[s] = take(moved_[s]);
  }
}

}  // namespace strata::worker
