#include "worker/trainer/calibration/action_times.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "program/passes/expand.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {
namespace {

constexpr int kPairs = 64;
// Marks have a grain: what is shorter than they are themselves is not 0.
constexpr double kLeastPart = 0.1;

}  // namespace

absl::StatusOr<std::unique_ptr<ActionTimes>> ActionTimes::Create(device::QueueDevice* device,
                                                                 const HeadStart* head_start) {
  std::unique_ptr<ActionTimes> made(new ActionTimes(device, head_start));
  RETURN_IF_ERROR(made->MeasureMarks());
  return made;
}

absl::Status ActionTimes::MeasureMarks() {
  ASSIGN_OR_RETURN(device::QueueStream* const queue, device_->CreateQueue());
  RETURN_IF_ERROR(head_start_->Give(*queue));
  for (int pair = 0; pair < kPairs; ++pair) {
    ASSIGN_OR_RETURN(Timed* const timed, Next());
    RETURN_IF_ERROR(queue->Mark(*timed->begin));
    RETURN_IF_ERROR(queue->Mark(*timed->end));
  }
  RETURN_IF_ERROR(Finish(*device_, *queue));
  ASSIGN_OR_RETURN(const std::vector<TraceRecord> pairs, Take());
  std::vector<double> found;
  for (const TraceRecord& pair : pairs) found.push_back(pair.end);
  between_marks_ = Median(std::move(found));
  return absl::OkStatus();
}

void ActionTimes::Watch(const program::ProgramSet& set) {
  for (const program::Action& action : program::Expand(set, set.programs[0]).actions) {
    is_compute_.push_back(action.stream == program::Stream::kCompute);
  }
}

absl::StatusOr<ActionTimes::Timed*> ActionTimes::Next() {
  if (used_ == timed_.size()) {
    Timed& timed = timed_.emplace_back();
    ASSIGN_OR_RETURN(timed.begin, device_->CreateTimeMark());
    ASSIGN_OR_RETURN(timed.end, device_->CreateTimeMark());
  }
  return &timed_[used_++];
}

absl::Status ActionTimes::Begin(const IssuedAction& what) {
  if (what.step != last_step_) {
    last_step_ = what.step;
    RETURN_IF_ERROR(head_start_->Give(*queue_));
  }
  ASSIGN_OR_RETURN(Timed* const timed, Next());
  timed->action = what.action;
  timed->step = what.step;
  return queue_->Mark(*timed->begin);
}

void ActionTimes::Issue(const IssuedAction& what, device::Stream& stream) {
  if (is_compute_.empty() || what.program != 0 || !is_compute_[what.action]) return;
  queue_ = static_cast<device::QueueStream*>(&stream);
  error_.Update(Begin(what));
}

void ActionTimes::Issued() {
  device::QueueStream* const queue = std::exchange(queue_, nullptr);  // null: not of compute
  if (queue != nullptr && error_.ok()) error_.Update(queue->Mark(*timed_[used_ - 1].end));
}

absl::StatusOr<std::vector<TraceRecord>> ActionTimes::Take() {
  RETURN_IF_ERROR(error_);
  std::vector<TraceRecord> records(used_);
  for (size_t i = 0; i < used_; ++i) {
    const Timed& timed = timed_[i];
    ASSIGN_OR_RETURN(const double seconds, device_->SecondsBetween(*timed.begin, *timed.end));
    records[i].step = timed.step;
    records[i].action = timed.action;
    records[i].end = std::max(seconds - between_marks_, kLeastPart * seconds);
  }
  used_ = 0;
  return records;
}

}  // namespace strata::worker
