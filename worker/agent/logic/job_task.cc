#include "worker/agent/logic/job_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {

JobTask::JobTask(v1::TrainerTask task, std::vector<int> ranks, Overseer* overseer)
    : task_(std::move(task)),
      ranks_(std::move(ranks)),
      overseer_(overseer),
      prepared_(ranks_.size()),
      running_(ranks_.size(), false),
      stopping_(ranks_.size(), false),
      merger_(places(), task_.plan().start_step()),
      unpublished_(ranks_.size()),
      published_(task_.plan().start_step()),
      gate_(task_.plan().start_step()) {}

void JobTask::Begin(TrainerGroup& group) {
  for (int place = 0; place < group.size(); ++place) {
    v1::TrainerCommand command;
    *command.mutable_task() = task_;
    command.mutable_task()->set_rank(group.rank(place));
    command.mutable_task()->set_ranks_on_node(static_cast<int>(ranks_.size()));
    group[place].Send(command);
  }
}

void JobTask::Publish(StepRecords* records, int64_t published) {
  records_ = records;
  merger_ = StepMerger(places(), published);
  published_ = published;
  appended_.clear();
  gate_.Published(published);
}

absl::Status JobTask::PublishHeldBack(TrainerGroup& group) {
  if (!held_back_.has_value()) return absl::OkStatus();
  const std::vector<HeldBack> reports = *std::exchange(held_back_, std::nullopt);
  for (std::deque<Report>& each : unpublished_) each.clear();
  for (const HeldBack& each : reports) {
    RETURN_IF_ERROR(OnStep(group, each.place, each.sequence, each.report));
  }
  return absl::OkStatus();
}

absl::Status JobTask::OnEvent(TrainerGroup& group, int place, const v1::TrainerEvent& event) {
  v1::JobProgress progress;
  switch (event.event_case()) {
    case v1::TrainerEvent::kPrepared:
      return OnPrepared(group, place, event.prepared());
    case v1::TrainerEvent::kRunning:
      OnRunning(place);
      return absl::OkStatus();
    case v1::TrainerEvent::kStep:
      return OnStep(group, place, event.sequence(), event.step());
    case v1::TrainerEvent::kStopping:
      OnStopping(group, place, event.stopping().step());
      return absl::OkStatus();
    case v1::TrainerEvent::kWritten:
      return overseer_->OnWritten(group, group.rank(place), event.written());
    case v1::TrainerEvent::kRecord:
      return overseer_->OnRecord(group, event.record());
    case v1::TrainerEvent::kText:
      overseer_->OnText(event.text());
      return absl::OkStatus();
    case v1::TrainerEvent::kResult:
      overseer_->OnResult(event.result());
      return absl::OkStatus();
    case v1::TrainerEvent::kProfile:
      overseer_->OnProfile(event.profile());
      return absl::OkStatus();
    case v1::TrainerEvent::kEvaluation:
      *progress.mutable_evaluation() = event.evaluation();
      break;
    case v1::TrainerEvent::kCommitted:
      *progress.mutable_checkpoint() = event.committed();
      break;
    case v1::TrainerEvent::kNotice:
      *progress.mutable_notice() = event.notice();
      break;
    case v1::TrainerEvent::kPlan:
    case v1::TrainerEvent::kEnded:
    case v1::TrainerEvent::kHello:
    case v1::TrainerEvent::kStopAgent:
    case v1::TrainerEvent::EVENT_NOT_SET:
      return absl::InternalError(
          absl::StrCat(NameOf(group.rank(place)), " sent an event out of place"));
  }
  overseer_->OnProgress(progress);
  return absl::OkStatus();
}

absl::Status JobTask::OnPrepared(TrainerGroup& group, int place, const v1::Prepared& prepared) {
  prepared_[place] = prepared;
  std::vector<v1::Prepared> all;
  for (const std::optional<v1::Prepared>& each : prepared_) {
    if (each.has_value()) all.push_back(*each);
  }
  if (static_cast<int>(all.size()) != places()) return absl::OkStatus();
  return overseer_->OnPrepared(group, all);
}

void JobTask::Start(TrainerGroup& group, v1::StartRanks start) {
  v1::TrainerCommand command;
  *command.mutable_start() = std::move(start);
  group.SendAll(command);
}

void JobTask::OnRunning(int place) {
  if (running_[place]) return;
  running_[place] = true;
  if (++running_count_ == places()) overseer_->OnRunning();
}

absl::Status JobTask::OnStep(TrainerGroup& group, int place, uint64_t sequence,
                             const v1::StepRecord& report) {
  if (held_back_.has_value()) {
    held_back_->push_back({place, sequence, report});
    unpublished_[place].push_back({sequence, report.step()});  // not acknowledged
    return absl::OkStatus();
  }
  if (records_ == nullptr) {
    if (task_.has_controlled()) return absl::OkStatus();  // another node's agent publishes
    return absl::InternalError("a step in a task without steps");
  }
  const int64_t appended = appended_.empty() ? published_ : appended_.back().step();
  if (report.step() <= appended) return absl::OkStatus();  // told to an earlier agent too
  unpublished_[place].push_back({sequence, report.step()});
  ASSIGN_OR_RETURN(const std::optional<v1::StepRecord> record, merger_.Add(place, report));
  if (!record.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(records_->Append(*record));
  appended_.push_back(*record);
  return PublishWritten(group);
}

absl::Status JobTask::PublishWritten(TrainerGroup& group) {
  if (records_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t written, records_->Written());
  while (!appended_.empty() && appended_.front().step() <= written) {
    v1::JobProgress progress;
    *progress.mutable_step() = std::move(appended_.front());
    appended_.pop_front();
    published_ = progress.step().step();
    overseer_->OnProgress(progress);
  }
  for (std::deque<Report>& reports : unpublished_) {
    while (!reports.empty() && reports.front().step <= published_) reports.pop_front();
  }
  gate_.Published(published_);
  return CommitWhatIsReady(group);
}

uint64_t JobTask::Settled(int place, uint64_t heard) const {
  return unpublished_[place].empty() ? heard : unpublished_[place].front().sequence - 1;
}

absl::Status JobTask::Commit(TrainerGroup& group, v1::CommitCheckpoint commit) {
  gate_.Complete(std::move(commit));
  return CommitWhatIsReady(group);
}

absl::Status JobTask::CommitWhatIsReady(TrainerGroup& group) {
  const auto first = std::find(ranks_.begin(), ranks_.end(), 0);
  if (first == ranks_.end()) return absl::OkStatus();
  Trainer& rank0 = group[static_cast<int>(first - ranks_.begin())];
  if (!rank0.connected()) return absl::OkStatus();
  for (;;) {
    if (!ready_.has_value()) ready_ = gate_.Next();
    if (!ready_.has_value()) return absl::OkStatus();
    if (records_ != nullptr) {
      ASSIGN_OR_RETURN(const bool synced, records_->Sync(ready_->step()));
      if (!synced) return absl::OkStatus();
    }
    v1::TrainerCommand command;
    *command.mutable_commit() = *std::exchange(ready_, std::nullopt);
    rank0.Send(command);
  }
}

bool JobTask::OnInterrupt(TrainerGroup& group) {
  // Before all ranks run there is nothing to save, and nobody to agree on a step.
  if (task_.kind() != v1::TrainerTask::KIND_TRAIN || !running()) return false;
  v1::TrainerCommand command;
  command.mutable_stop();
  group.SendAll(command);
  return true;
}

void JobTask::OnStopping(TrainerGroup& group, int place, int64_t step) {
  stop_after_ = std::max(stop_after_, step);
  if (stopping_[place]) return;
  stopping_[place] = true;
  if (++stopping_count_ == places()) overseer_->OnStopping(group, stop_after_);
}

void JobTask::StopAfter(TrainerGroup& group, int64_t step) {
  v1::TrainerCommand command;
  command.mutable_stop_after()->set_step(step);
  group.SendAll(command);
}

}  // namespace strata::worker
