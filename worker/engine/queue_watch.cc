#include "worker/engine/queue_watch.h"

#include <chrono>
#include <utility>

namespace strata::worker {

QueueWatch::QueueWatch(RunState* state, const std::vector<BoundProgram>* bound,
                       Accelerator* accelerator, ProgressSink* progress)
    : state_(state), bound_(bound), accelerator_(accelerator), progress_(progress), thread_([this] {
        Watch();
      }) {}

QueueWatch::~QueueWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void QueueWatch::Watch() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ending_; })) {
    for (int s = 0; progress_ != nullptr && s < program::kStreamCount; ++s) {
      if (state_->is_queue(s)) Look(s);
    }
    const absl::Status status = accelerator_->CheckCommunication();
    if (!status.ok()) state_->Fail(status);
  }
}

QueueWatch::Place QueueWatch::PlaceOf(int stream) const {
  const int index = state_->active_program();
  if (index < 0) return {};
  const std::vector<int32_t>& actions = (*bound_)[index].streams[stream];
  const int64_t ended = state_->ended(stream);
  if (actions.empty() || ended < 0 || ended >= state_->issued(stream)) return {};
  return {index, actions[ended % static_cast<int64_t>(actions.size())]};
}

void QueueWatch::Look(int stream) {
  const Place place = PlaceOf(stream);
  if (place == told_[stream]) return;
  const Place before = std::exchange(told_[stream], place);
  const auto name = static_cast<program::Stream>(stream);
  if (before.action >= 0) progress_->End(name, before.program, before.action);
  if (place.action >= 0) progress_->Begin(name, place.program, place.action);
}

}  // namespace strata::worker
