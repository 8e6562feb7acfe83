#include "worker/engine/background_streams.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {

BackgroundStreams::BackgroundStreams(RunState* state, collectives::Communicator* communicator,
                                     Describe describe)
    : state_(state),
      communicator_(communicator),
      describe_(std::move(describe)),
      thread_([this] { Work(); }) {}

BackgroundStreams::~BackgroundStreams() {
  state_->Stop();
  thread_.join();
}

void BackgroundStreams::Work() {
  while (!state_->stopping()) {
    const Submission submission = state_->submission();
    bool moved = AdvanceAll(submission);
    if (communicator_ != nullptr) moved |= communicator_->Progress();
    if (state_->failed()) {
      // Progress has let go of every buffer; nothing is started any more.
      if (communicator_ != nullptr) communicator_->Progress();
      state_->SleepUntilStop();
      return;
    }
    if (!moved) state_->SleepInBackground();
  }
  const bool flying = std::any_of(lanes_.begin(), lanes_.end(),
                                  [](const Lane& lane) { return lane.flying.has_value(); });
  if (flying) {
    communicator_->Cancel(absl::CancelledError("the engine was destroyed"));
    communicator_->Progress();
  }
}

bool BackgroundStreams::AdvanceAll(const Submission& submission) {
  if (state_->failed()) return false;
  if (submission.run != run_) {
    run_ = submission.run;
    lanes_.fill({});
  }
  bool moved = AdvanceRequest();
  if (submission.bound == nullptr) return moved;
  for (int s = 0; s < program::kStreamCount; ++s) {
    if (!submission.bound->background[s].empty()) moved |= Advance(s, submission);
  }
  return moved;
}

bool BackgroundStreams::Advance(int stream, const Submission& submission) {
  bool moved = false;
  while (!state_->failed() && Step(stream, lanes_[stream], submission)) moved = true;
  return moved;
}

bool BackgroundStreams::Step(int stream, Lane& lane, const Submission& submission) {
  if (lane.step >= submission.steps) return false;
  const BoundAction& action = submission.bound->background[stream][lane.next];
  if (lane.flying.has_value()) {
    const absl::StatusOr<bool> done = communicator_->Test(*lane.flying);
    if (!done.ok()) {
      lane.flying.reset();
      Fail(done.status(), action, submission.program);
      return false;
    }
    if (!*done) return false;
    lane.flying.reset();
    Finish(lane, action, submission);
    return true;
  }
  for (const BoundDependency& dependency : action.dependencies) {
    if (!state_->Met(*submission.bound, dependency, lane.step)) {
      state_->Hold(action);
      return false;
    }
  }
  if (!action.takes_place()) {
    Pass(lane, action, submission);
    return true;
  }
  return Start(lane, action, submission);
}

bool BackgroundStreams::Start(Lane& lane, const BoundAction& action, const Submission& submission) {
  lane.begin = state_->Begin(action, submission.program);
  const BoundAction::Variant& variant = action.variants[submission.variants[lane.step % 2]];
  if (variant.run) {
    if (const absl::Status status = variant.run(); !status.ok()) {
      Fail(status, action, submission.program);
      return false;
    }
    Finish(lane, action, submission);
    return true;
  }
  const absl::StatusOr<collectives::OperationId> id = communicator_->Post(variant.operation);
  if (!id.ok()) {
    Fail(id.status(), action, submission.program);
    return false;
  }
  lane.flying = *id;
  return true;
}

void BackgroundStreams::Finish(Lane& lane, const BoundAction& action,
                               const Submission& submission) {
  const double seconds =
      state_->Finish(action, submission.program, submission.first_step + lane.step, lane.begin);
  state_->AddBackgroundTime(action.purpose, seconds);
  Pass(lane, action, submission);
}

void BackgroundStreams::Pass(Lane& lane, const BoundAction& action, const Submission& submission) {
  if (++lane.next == submission.bound->background[action.stream].size()) {
    lane.next = 0;
    ++lane.step;
    state_->Rest(action.stream);
  }
  state_->End(action.stream);
  state_->NotifyMain();
}

void BackgroundStreams::Fail(const absl::Status& status, const BoundAction& action, int program) {
  state_->Fail(absl::Status(
      status.code(), absl::StrCat(describe_(program, action.action), ": ", status.message())));
}

absl::Status BackgroundStreams::RunCollective(const collectives::Operation& operation) {
  if (communicator_ == nullptr) return absl::FailedPreconditionError("there is no communicator");
  request_ = operation;
  request_stage_.store(RequestStage::kAsked, std::memory_order_release);
  state_->WakeBackground();
  const absl::Status status = state_->WaitOnMain(
      [this] { return request_stage_.load(std::memory_order_acquire) == RequestStage::kDone; });
  return status;
}

bool BackgroundStreams::AdvanceRequest() {
  const RequestStage stage = request_stage_.load(std::memory_order_acquire);
  if (stage == RequestStage::kAsked) {
    const absl::StatusOr<collectives::OperationId> id = communicator_->Post(request_);
    if (!id.ok()) {
      state_->Fail(id.status());
      return false;
    }
    request_id_ = *id;
    request_stage_.store(RequestStage::kFlying, std::memory_order_release);
    return true;
  }
  if (stage != RequestStage::kFlying) return false;
  const absl::StatusOr<bool> done = communicator_->Test(request_id_);
  if (!done.ok()) {
    state_->Fail(done.status());
    return false;
  }
  if (!*done) return false;
  request_stage_.store(RequestStage::kDone, std::memory_order_release);
  state_->NotifyMain();
  return true;
}

}  // namespace strata::worker
