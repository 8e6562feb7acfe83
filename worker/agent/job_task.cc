#include "worker/agent/job_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/agent/agreement.h"
#include "worker/agent/step_json.h"

namespace strata::worker {

JobTask::JobTask(v1::TrainerTask task, ClientLink* client, MetricsFiles* metrics)
    : task_(std::move(task)),
      client_(client),
      metrics_(metrics),
      prepared_(task_.ranks()),
      merger_(task_.ranks(), task_.plan().start_step()),
      gate_(task_.ranks(), task_.plan().start_step()) {}

void JobTask::Begin(TrainerGroup& group) {
  for (int rank = 0; rank < group.size(); ++rank) {
    v1::TrainerCommand command;
    *command.mutable_task() = task_;
    command.mutable_task()->set_rank(rank);
    group.Send(rank, command);
  }
}

absl::Status JobTask::OnEvent(TrainerGroup& group, int rank, const v1::TrainerEvent& event) {
  v1::StandaloneEvent relayed;
  switch (event.event_case()) {
    case v1::TrainerEvent::kPrepared:
      return OnPrepared(group, rank, event.prepared());
    case v1::TrainerEvent::kRunning:
      OnRunning();
      return absl::OkStatus();
    case v1::TrainerEvent::kStep:
      return OnStep(group, rank, event.step());
    case v1::TrainerEvent::kStopping:
      OnStopping(group, event.stopping().step());
      return absl::OkStatus();
    case v1::TrainerEvent::kWritten:
      RETURN_IF_ERROR(gate_.Written(rank, event.written()));
      return CommitWhatIsReady(group);
    case v1::TrainerEvent::kEvaluation:
      *relayed.mutable_evaluation() = event.evaluation();
      break;
    case v1::TrainerEvent::kCommitted:
      *relayed.mutable_checkpoint() = event.committed();
      break;
    case v1::TrainerEvent::kNotice:
      *relayed.mutable_notice() = event.notice();
      break;
    case v1::TrainerEvent::kText:
      *relayed.mutable_text() = event.text();
      break;
    case v1::TrainerEvent::kResult:
      *relayed.mutable_result() = event.result();
      break;
    case v1::TrainerEvent::kPlan:
    case v1::TrainerEvent::kEnded:
    case v1::TrainerEvent::EVENT_NOT_SET:
      return absl::InternalError(absl::StrCat("rank ", rank, " sent an event out of place"));
  }
  client_->Send(relayed);
  return absl::OkStatus();
}

absl::Status JobTask::OnPrepared(TrainerGroup& group, int rank, const v1::Prepared& prepared) {
  prepared_[rank] = prepared;
  if (++prepared_count_ != ranks()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAgreement(task_.plan().plan_digest(), prepared_));
  v1::TrainerCommand command;
  for (const v1::Prepared& each : prepared_) command.mutable_start()->add_addresses(each.address());
  group.SendAll(command);
  return absl::OkStatus();
}

void JobTask::OnRunning() {
  if (++running_ != ranks()) return;
  const v1::JobPlan& plan = task_.plan();
  v1::StandaloneEvent event;
  v1::Started& started = *event.mutable_started();
  started.set_parameters(plan.parameters());
  started.set_ranks(ranks());
  for (const v1::TierBytes& tier : plan.predicted()) {
    v1::TierMemory* const memory = started.add_memory();
    memory->set_tier(tier.tier());
    memory->set_predicted_bytes(tier.bytes());
  }
  if (task_.kind() == v1::TrainerTask::KIND_TRAIN) {
    if (!plan.checkpoint_folder().empty()) started.set_resumed_from(plan.start_step());
    started.set_steps(task_.job().train().steps());
  }
  client_->Send(event);
}

absl::Status JobTask::OnStep(TrainerGroup& group, int rank, const v1::StepRecord& report) {
  if (metrics_ == nullptr) return absl::InternalError("a step in a task without steps");
  ASSIGN_OR_RETURN(const std::optional<v1::StepRecord> record, merger_.Add(rank, report));
  if (!record.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(metrics_->Append(StepLine(*record)));
  v1::StandaloneEvent event;
  *event.mutable_step() = *record;
  client_->Send(event);
  gate_.Published(record->step());
  return CommitWhatIsReady(group);
}

absl::Status JobTask::CommitWhatIsReady(TrainerGroup& group) {
  while (std::optional<v1::CommitCheckpoint> commit = gate_.Next()) {
    RETURN_IF_ERROR(metrics_->Sync());
    v1::TrainerCommand command;
    *command.mutable_commit() = *std::move(commit);
    group.Send(0, command);
  }
  return absl::OkStatus();
}

bool JobTask::OnInterrupt(TrainerGroup& group) {
  // Before all ranks run there is nothing to save, and nobody to agree on a step.
  if (task_.kind() != v1::TrainerTask::KIND_TRAIN || running_ < ranks()) return false;
  v1::TrainerCommand command;
  command.mutable_stop();
  group.SendAll(command);
  return true;
}

void JobTask::OnStopping(TrainerGroup& group, int64_t step) {
  stop_after_ = std::max(stop_after_, step);
  if (++stopping_ != ranks()) return;
  v1::TrainerCommand command;
  command.mutable_stop_after()->set_step(stop_after_);
  group.SendAll(command);
}

}  // namespace strata::worker
