#include "worker/engine/action_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

constexpr int kCompute = static_cast<int>(program::Stream::kCompute);

}  // namespace

void ActionRunner::BeginRun(int index, const BoundProgram* program) {
  index_ = index;
  program_ = program;
  for (std::atomic<double>& end : end_times_) end.store(0, std::memory_order_relaxed);
}

void ActionRunner::BeginStep(int64_t step, int64_t traced_step, int64_t applied, double now) {
  steps_[step % 2] = {applied % program_->variants, traced_step};
  compute_ = {};
  exposed_ = {};
  stalled_ = {};
  free_since_ = now;
}

void ActionRunner::Run(int64_t code) {
  const BoundAction& action = At(code);
  if (action.stream == kCompute) CountExposed(action);
  if (TakesPlace(action)) {
    Begin(code);
    const absl::Status status = program_->ops[WorkOf(code).index]();
    status.ok() ? Finish(code) : Fail(code, status);
  } else {
    Skip(code);
  }
  Pass(action);
}

void ActionRunner::Start(int64_t code) {
  if (!state_->failed()) Begin(code);
}

void ActionRunner::Stop(int64_t code) {
  const BoundAction& action = At(code);
  if (action.stream == kCompute) CountExposed(action);
  if (!state_->failed()) Finish(code);
  Pass(action);
}

bool ActionRunner::Poll(int64_t code) {
  const BoundAction& action = At(code);
  std::optional<collectives::OperationId>& in_flight = in_flight_[action.stream];
  if (!in_flight.has_value()) {
    if (TakesPlace(action)) {
      Begin(code);
      const auto posted = communicator_->Post(program_->operations[WorkOf(code).index]);
      if (posted.ok()) {
        in_flight = *posted;
        return false;
      }
      Fail(code, posted.status());
    } else {
      Skip(code);
    }
  } else {
    // Also after a failure: until the communicator says so, buffers are in use.
    const absl::StatusOr<bool> done = communicator_->Test(*in_flight);
    if (done.ok() && !*done) return false;
    in_flight.reset();
    done.ok() ? Finish(code) : Fail(code, done.status());
  }
  Pass(action);
  return true;
}

void ActionRunner::Begin(int64_t code) {
  const int stream = At(code).stream;
  begin_[stream] = state_->Begin(stream, index_, static_cast<int>(code / 2));
}

void ActionRunner::Finish(int64_t code) {
  const BoundAction& action = At(code);
  const double begin = begin_[action.stream];
  const double end = state_->Finish(action.stream, index_, static_cast<int>(code / 2),
                                    steps_[code % 2].traced, begin);
  last_ends_[action.stream].store(end, std::memory_order_relaxed);
  if (action.stream == kCompute) {
    compute_[action.purpose] += end - begin;
    free_since_ = end;
  } else {
    state_->AddBackgroundTime(action.purpose, end - begin);
    if (action.moved_bytes > 0) {
      state_->AddTransfer(action.stream, end - begin, action.moved_bytes);
    }
  }
}

void ActionRunner::Skip(int64_t code) {
  if (state_->failed()) return;
  state_->Skip(index_, static_cast<int>(code / 2), steps_[code % 2].traced);
}

void ActionRunner::Pass(const BoundAction& action) {
  if (action.end_time >= 0) {
    end_times_[action.end_time].store(state_->Now(), std::memory_order_relaxed);
  }
  state_->NoteEnded(action.stream);
}

void ActionRunner::Fail(int64_t code, const absl::Status& status) {
  state_->Fail(absl::Status(
      status.code(),
      absl::StrCat(describe_(index_, static_cast<int>(code / 2)), ": ", status.message())));
}

// Compute stood still from the end of its last action to the end of the last one that it waited
// for, and that one is to blame.
void ActionRunner::CountExposed(const BoundAction& action) {
  double latest = free_since_;
  int blamed = -1;  // an action
  for (const BoundDependency& dependency : program_->DependenciesOf(action)) {
    const BoundAction& other = program_->actions[dependency.action];
    const double end = end_times_[other.end_time].load(std::memory_order_relaxed);
    if (end <= latest) continue;
    latest = end;
    blamed = static_cast<int>(dependency.action);
  }
  if (blamed < 0) return;
  exposed_[program_->actions[blamed].purpose] += latest - free_since_;
  CountStall(blamed, free_since_, latest);
  free_since_ = latest;
}

// From the end backwards: the action's stream was at work since the last end of what the action, or
// one before it on the stream, waited for. Ends of this step only: nothing of the next one is
// issued while compute stands, and what has not ended in this step has an earlier end.
void ActionRunner::CountStall(int action, double from, double to) {
  constexpr int kMostHops = 100, kMostPrevious = 32;
  for (int hop = 0; action >= 0; ++hop) {
    const BoundAction& at = program_->actions[action];
    double latest = from;
    int before = -1;
    const auto look = [&](int other) {
      const int end_time = program_->actions[other].end_time;
      if (end_time < 0) return;
      const double end = end_times_[end_time].load(std::memory_order_relaxed);
      if (end <= latest || end >= to) return;
      latest = end;
      before = other;
    };
    const std::vector<int32_t>& stream = program_->streams[at.stream];
    int64_t place = program_->Place(action);
    // Of previous ones that nobody waits for the ends are not known: what they waited for counts.
    for (const int64_t first = std::max<int64_t>(0, place - kMostPrevious); place >= first;
         --place) {
      const BoundAction& previous = program_->actions[stream[place]];
      if (stream[place] != action && previous.end_time >= 0) {
        look(stream[place]);
        break;
      }
      for (const BoundDependency& dependency : program_->DependenciesOf(previous)) {
        look(static_cast<int>(dependency.action));
      }
    }
    if (hop == kMostHops) latest = from;
    stalled_[at.stream] += to - latest;
    to = latest;
    action = hop == kMostHops ? -1 : before;
  }
}

void ActionRunner::CountTail(int stream) {
  const double end = last_ends_[stream].load(std::memory_order_relaxed);
  if (program_->streams[stream].empty() || end <= free_since_) return;
  const int last = program_->streams[stream].back();
  exposed_[program_->actions[last].purpose] += end - free_since_;
  CountStall(last, free_since_, end);
  free_since_ = end;
}

}  // namespace strata::worker
