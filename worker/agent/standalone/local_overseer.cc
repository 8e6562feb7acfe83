#include "worker/agent/standalone/local_overseer.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/entropy.h"
#include "common/status_macros.h"
#include "protocol/agreement.h"
#include "protocol/task_event.h"

namespace strata::worker {
namespace {

constexpr int kNonceBytes = 16;

}  // namespace

LocalOverseer::LocalOverseer(const v1::TrainerTask& task, ClientLink* client)
    : task_(task), client_(client) {}

absl::Status LocalOverseer::OnPrepared(TrainerGroup& group,
                                       const std::vector<v1::Prepared>& prepared) {
  std::map<int, v1::Prepared> by_rank;
  for (const v1::Prepared& each : prepared) by_rank.emplace(by_rank.size(), each);
  RETURN_IF_ERROR(protocol::CheckAgreement(by_rank));
  if (prepared.front().plan_digest() != task_.plan().plan_digest()) {
    return absl::FailedPreconditionError("the ranks follow another plan than was prepared");
  }
  v1::StartRanks start;
  for (const v1::Prepared& each : prepared) start.add_addresses(each.address());
  start.set_nonce(common::DrawBytes(common::SystemEntropy(), kNonceBytes));
  job_->Start(group, std::move(start));
  return absl::OkStatus();
}

void LocalOverseer::OnRunning() {
  const v1::JobPlan& plan = task_.plan();
  v1::StandaloneEvent event;
  v1::Started& started = *event.mutable_started();
  started.set_parameters(plan.parameters());
  started.set_ranks(task_.ranks());
  for (const v1::TierBytes& tier : plan.predicted()) {
    v1::TierMemory* const memory = started.add_memory();
    memory->set_tier(tier.tier());
    memory->set_predicted_bytes(tier.bytes());
    *memory->mutable_slots() = tier.slots();
  }
  if (task_.kind() == v1::TrainerTask::KIND_TRAIN) {
    if (!plan.checkpoint_folder().empty()) started.set_resumed_from(plan.start_step());
    started.set_steps(task_.job().train().steps());
  }
  client_->Send(event);
}

void LocalOverseer::OnProgress(const v1::JobProgress& progress) {
  const std::optional<v1::StandaloneEvent> event = protocol::TaskEventOf(progress);
  if (event.has_value()) client_->Send(*event);
}

absl::Status LocalOverseer::OnWritten(TrainerGroup& group, int rank,
                                      const v1::CheckpointWritten& written) {
  if (fragments_.Has(written.step(), {rank})) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " wrote step ", written.step(), " twice"));
  }
  google::protobuf::Map<int32_t, std::string> own;
  own[rank] = written.fragment();
  const auto whole = fragments_.Add(written.step(), own, task_.ranks());
  if (!whole.has_value()) return absl::OkStatus();
  v1::CommitCheckpoint commit;
  commit.set_step(whole->step);
  for (const std::string& fragment : whole->fragments) commit.add_fragments(fragment);
  return job_->Commit(group, std::move(commit));
}

absl::Status LocalOverseer::OnRecord(TrainerGroup&, const v1::RecordCheckpoint&) {
  return absl::InternalError("a rank asked for a controller's word");
}

void LocalOverseer::OnStopping(TrainerGroup& group, int64_t step) { job_->StopAfter(group, step); }

void LocalOverseer::OnText(const v1::GeneratedText& text) {
  v1::StandaloneEvent event;
  *event.mutable_text() = text;
  client_->Send(event);
}

void LocalOverseer::OnResult(const v1::EvalResult& result) {
  v1::StandaloneEvent event;
  *event.mutable_result() = result;
  client_->Send(event);
}

void LocalOverseer::OnProfile(const v1::Profile& profile) {
  v1::StandaloneEvent event;
  *event.mutable_profile() = profile;
  client_->Send(event);
}

}  // namespace strata::worker
