#include "worker/trainer/checkpointing.h"

#include <utility>

#include "common/status_macros.h"

namespace strata::worker {

Checkpointing::Checkpointing(const v1::TrainerTask& task, Control* control, CommitQueue* commits,
                             checkpoint::FileSystem* files)
    : control_(control),
      commits_(commits),
      keep_(task.job().checkpoint().keep()),
      writer_({task.job().checkpoint().directory(), task.plan().epoch(), task.rank()}, files) {}

absl::Status Checkpointing::Begin(const checkpoint::CheckpointInfo& info,
                                  std::vector<checkpoint::SnapshotItem> items) {
  RETURN_IF_ERROR(AtGate());
  if (commits_ != nullptr) RETURN_IF_ERROR(commits_->Announce(info, keep_));
  items_ = std::move(items);
  newest_step_ = info.step;
  return writer_.Begin(info.step, items_);
}

absl::Status Checkpointing::AtGate() {
  if (!writer_.busy()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const checkpoint::FileFragment fragment, writer_.Wait());
  v1::TrainerEvent event;
  event.mutable_written()->set_step(newest_step_);
  event.mutable_written()->set_fragment(fragment.ToJson());
  control_->Send(event);
  return absl::OkStatus();
}

absl::Status Checkpointing::Finish() {
  RETURN_IF_ERROR(AtGate());
  return commits_ != nullptr ? commits_->WaitForAll() : absl::OkStatus();
}

}  // namespace strata::worker
