#include "worker/trainer/agent_commit_authority.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::Status AgentCommitAuthority::Record(int64_t epoch, int64_t step,
                                          const std::string& manifest_digest, const std::string&) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_ = step;
    answer_.reset();
  }
  v1::TrainerEvent event;
  event.mutable_record()->set_step(step);
  event.mutable_record()->set_manifest_digest(manifest_digest);
  control_->Send(event);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return cancelled_ || answer_.has_value(); });
  if (!answer_.has_value()) return absl::CancelledError("checkpoint: cancelled");
  if (answer_->accepted()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("checkpoint of step ", step, " in epoch ", epoch,
                                         ": the controller refuses it: ", answer_->reason()));
}

absl::StatusOr<bool> AgentCommitAuthority::IsRecorded(int64_t, int64_t, const std::string&) {
  return absl::FailedPreconditionError("a running rank does not recover checkpoints");
}

void AgentCommitAuthority::Answer(const v1::CheckpointAnswer& answer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (answer.step() == asked_) answer_ = answer;
  }
  changed_.notify_all();
}

void AgentCommitAuthority::Cancel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

absl::Status RecordedAuthority::Record(int64_t, int64_t, const std::string&, const std::string&) {
  return absl::FailedPreconditionError("nothing is committed before ranks start");
}

}  // namespace strata::worker
