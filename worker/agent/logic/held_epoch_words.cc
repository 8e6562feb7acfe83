// What is said of an epoch to the controller, and what follows from its words.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/agent/logic/held_epoch.h"
#include "worker/agent/logic/verdict.h"

namespace strata::worker {
namespace {

constexpr size_t kProgressKept = 256;
// Rank 0 has at most two checkpoints on their way.
constexpr int kFragmentsKept = 4;
// The controller answers with the last step of all ranks within so long: another node's agent may
// be restarting, and the controller itself gives up after as long.
constexpr double kStopAnswerSeconds = 60;
constexpr size_t kLinesAtOnce = 256;
constexpr size_t kLastLines = 6000;

}  // namespace

absl::Status HeldEpoch::OnPrepared(TrainerGroup& group, const std::vector<v1::Prepared>& prepared) {
  v1::EpochPrepared& said = *record_.mutable_prepared();
  said.Clear();
  *said.mutable_epoch() = epoch();
  *said.mutable_plan() = record_.plan();
  for (int place = 0; place < group.size(); ++place) {
    if (prepared[place].plan_digest() != record_.plan().plan_digest()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", group.rank(place), " follows another plan than was prepared"));
    }
    v1::EpochPrepared::Rank* const rank = said.add_ranks();
    rank->set_rank(group.rank(place));
    *rank->mutable_prepared() = prepared[place];
    hang_watch_->SetGroups(place, prepared[place]);
  }
  SaveRecord();
  OnPrepare();
  return absl::OkStatus();
}

void HeldEpoch::OnKept() {
  if (!rank_watch_.has_value()) return;  // also after its end: records may be held back
  if (const absl::Status status = OpenRecords(); !status.ok()) {
    Kill("trainer_died", std::string(status.message()));
  }
}

void HeldEpoch::OnPrepare() {
  if (ended()) return SayFinal();
  if (record_.prepared().ranks_size() == 0) return;  // on its way
  v1::AgentMessage message;
  *message.mutable_prepared() = record_.prepared();
  environment_->say(message);
  if (record_.running()) OnRunning();
}

void HeldEpoch::OnDeviceFailed(int device, const std::string& reason) {
  const auto& devices = record_.prepare().devices();
  const auto at = std::find(devices.begin(), devices.end(), device);
  const auto place = static_cast<int>(at - devices.begin());
  if (at == devices.end() || place >= record_.prepare().own_size()) return;
  const int rank = record_.prepare().own(place);
  if (killed_reason_.empty()) killed_rank_ = rank;
  Kill("device_failed", absl::StrCat("rank ", rank, ": device ", device, " failed: ", reason));
}

void HeldEpoch::OnStart(const v1::StartEpoch& start) {
  if (ended()) return SayFinal();
  // Of some ranks: each trainer looks for those that it needs.
  const bool complete =
      start.ranks_size() > 0 || start.addresses_size() == record_.prepare().ranks();
  if (!rank_watch_.has_value() || !complete) return;
  start_ = start;
  if (!record_.started()) {
    record_.set_started(true);
    SaveRecord();
  }
  if (const absl::Status status = OpenRecords(); !status.ok()) {
    return Kill("start_failed", std::string(status.message()));
  }
  DeliverStart();
}

// Trainers that have it already take no notice.
void HeldEpoch::DeliverStart() {
  if (!start_.has_value() || opening_records_ || record_.running() || rank_watch_->stopping()) {
    return;
  }
  v1::StartRanks start;
  *start.mutable_addresses() = start_->addresses();
  *start.mutable_ranks() = start_->ranks();
  start.set_packed_addresses(start_->packed_addresses());
  start.set_nonce(start_->nonce());
  job_task_->Start(rank_watch_->group(), std::move(start));
}

void HeldEpoch::OnRunning() {
  if (!record_.running()) {
    record_.set_running(true);
    SaveRecord();
  }
  v1::AgentMessage message;
  *message.mutable_running()->mutable_epoch() = epoch();
  environment_->say(message);
  if (!stop_.has_value()) return;
  const v1::StopEpoch stop = *std::exchange(stop_, std::nullopt);
  OnStop(stop);
  if (stop_after_.has_value()) OnStopAfter(*stop_after_);
}

bool HeldEpoch::ComesBack() const {
  return back_by_ >= 0 && record_.running() && rank_watch_.has_value() &&
         !rank_watch_->stopping() && !job_task_->running();
}

void HeldEpoch::OnProgress(const v1::JobProgress& progress) {
  progress_.push_back(progress);
  if (progress_.size() > kProgressKept) progress_.pop_front();
  v1::AgentMessage message;
  *message.mutable_progress()->mutable_epoch() = epoch();
  *message.mutable_progress()->mutable_progress() = progress;
  environment_->say(message);
}

absl::Status HeldEpoch::OnWritten(TrainerGroup&, int rank, const v1::CheckpointWritten& written) {
  const auto& kept = record_.written();
  if (kept.size() == kFragmentsKept && written.step() < kept[0].step()) return absl::OkStatus();
  v1::CheckpointFragments& all = FragmentsOf(written.step());
  (*all.mutable_fragments())[rank] = written.fragment();
  SayFragments(all);
  // Where that fails, the next agent lacks them only if the rank has ended as well.
  static_cast<void>(host_->SaveRecord(record_));
  return absl::OkStatus();
}

// In order of steps; the oldest make room.
v1::CheckpointFragments& HeldEpoch::FragmentsOf(int64_t step) {
  auto& written = *record_.mutable_written();
  for (v1::CheckpointFragments& each : written) {
    if (each.step() == step) return each;
  }
  if (written.size() == kFragmentsKept) written.erase(written.begin());
  v1::CheckpointFragments& added = *written.Add();
  *added.mutable_epoch() = epoch();
  added.set_step(step);
  int place = written.size() - 1;
  for (; place > 0 && written[place - 1].step() > step; --place) {
    written.SwapElements(place - 1, place);
  }
  return written[place];
}

void HeldEpoch::SayFragments(const v1::CheckpointFragments& written) {
  v1::AgentMessage message;
  *message.mutable_written() = written;
  environment_->say(message);
}

void HeldEpoch::OnManifest(const v1::WriteManifest& manifest) {
  if (!rank_watch_.has_value() || rank_watch_->stopping() || !first()) return;
  v1::CommitCheckpoint commit;
  commit.set_step(manifest.step());
  *commit.mutable_fragments() = manifest.fragments();
  if (const absl::Status status = job_task_->Commit(rank_watch_->group(), std::move(commit));
      !status.ok()) {
    Kill("commit_failed", std::string(status.message()));
  }
}

absl::Status HeldEpoch::OnRecord(TrainerGroup&, const v1::RecordCheckpoint& record) {
  commit_ = record;
  SayCommit();
  return absl::OkStatus();
}

std::string HeldEpoch::CheckpointPath(int64_t step) const {
  return absl::StrCat(record_.prepare().spec().checkpoint().directory(), "/step-",
                      absl::Dec(step, absl::kZeroPad8));
}

void HeldEpoch::SayCommit() {
  v1::AgentMessage message;
  *message.mutable_commit()->mutable_epoch() = epoch();
  v1::CommittedCheckpoint& checkpoint = *message.mutable_commit()->mutable_checkpoint();
  checkpoint.set_epoch(epoch().epoch());
  checkpoint.set_step(commit_->step());
  checkpoint.set_manifest_digest(commit_->manifest_digest());
  checkpoint.set_path(CheckpointPath(commit_->step()));
  environment_->say(message);
}

void HeldEpoch::OnAnswer(const v1::CommitAnswer& answer) {
  if (!commit_.has_value() || commit_->step() != answer.step() || !rank_watch_.has_value()) return;
  commit_.reset();
  if (!answer.accepted()) refused_commit_ = true;
  v1::TrainerCommand command;
  command.mutable_answer()->set_step(answer.step());
  command.mutable_answer()->set_accepted(answer.accepted());
  command.mutable_answer()->set_reason(answer.reason());
  TrainerGroup& group = rank_watch_->group();
  for (int place = 0; place < group.size(); ++place) {
    if (group.rank(place) == 0) group[place].Send(command);
  }
}

void HeldEpoch::OnStop(const v1::StopEpoch& stop) {
  if (ended()) {
    if (!final_->has_ended()) *final_->mutable_ended() = HowItEnded();  // it could not be prepared
    return SayFinal();
  }
  if (stop.checkpoint() && ComesBack()) {  // ranks that cannot hear it yet would lose a checkpoint
    stop_ = stop;
    return;
  }
  const bool orderly = stop.checkpoint() && rank_watch_.has_value() && !rank_watch_->stopping() &&
                       job_task_->OnInterrupt(rank_watch_->group());
  if (!orderly) Kill("user", stop.reason().empty() ? "stopped" : stop.reason());
}

void HeldEpoch::OnStopping(TrainerGroup& group, int64_t step) {
  if (group.size() == record_.prepare().ranks()) return job_task_->StopAfter(group, step);
  stop_by_ = environment_->clock->Now() + kStopAnswerSeconds;
  stopping_at_ = step;
  SayStopping();
}

void HeldEpoch::SayStopping() {
  v1::AgentMessage message;
  *message.mutable_stopping()->mutable_epoch() = epoch();
  message.mutable_stopping()->set_step(*stopping_at_);
  environment_->say(message);
}

void HeldEpoch::OnStopAfter(int64_t step) {
  if (stop_.has_value()) {
    stop_after_ = step;
    return;
  }
  stop_by_ = -1;
  // What was decided is said again, so that a controller that starts anew decides the same.
  if (stopping_at_.has_value()) stopping_at_ = std::max(*stopping_at_, step);
  if (rank_watch_.has_value()) job_task_->StopAfter(rank_watch_->group(), step);
}

void HeldEpoch::Report(const HangVerdict& verdict) {
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  *hang.mutable_epoch() = epoch();
  hang.set_rank(verdict.rank);
  hang.set_group(verdict.group);
  hang.set_instruction(verdict.instruction);
  hang.set_seconds(verdict.seconds);
  // A suspicion ends nothing, also for a controller that does not know what one is.
  hang.set_local(verdict.local && !verdict.suspected);
  hang.set_stopped(verdict.stopped);
  hang.set_tentative(verdict.tentative || verdict.suspected);
  hang.set_suspected(verdict.suspected);
  hang.set_storage(verdict.storage);
  hang.set_limit_seconds(verdict.limit_seconds);
  hang.set_sequence(verdict.sequence);
  hang.set_stack(verdict.stack);
  for (const int rank : verdict.waiting) hang.add_waiting(rank);
  for (const int rank : verdict.missing) hang.add_missing(rank);
  environment_->say(message);
}

void HeldEpoch::ForwardLogs(bool last) {
  if (environment_->connected_since < 0) return;  // they wait in their files
  for (v1::LogLine& line : host_->ReadLogs(last ? kLastLines : kLinesAtOnce, last)) {
    v1::AgentMessage message;
    message.mutable_log()->set_job(epoch().job());
    message.mutable_log()->set_uid(epoch().uid());
    *message.mutable_log()->mutable_line() = std::move(line);
    message.mutable_log()->mutable_line()->set_epoch(epoch().epoch());
    environment_->say(message);
  }
}

void HeldEpoch::AddHeartbeats(v1::Heartbeat& heartbeat) {
  if (!rank_watch_.has_value() || ended()) return;
  TrainerGroup& group = rank_watch_->group();
  for (int place = 0; place < group.size(); ++place) {
    if (group[place].reaped()) continue;
    const RankPosition position = hang_watch_->PositionOf(group, place);
    v1::Heartbeat::Rank* const rank = heartbeat.add_ranks();
    *rank->mutable_epoch() = epoch();
    rank->set_rank(group.rank(place));
    // The one in progress is not done.
    rank->set_step(std::max<int64_t>(0, position.step - 1));
    rank->set_phase(position.phase);
    rank->set_phase_seconds(position.phase_seconds);
  }
}

std::optional<v1::HeldEpoch> HeldEpoch::Held() {
  if (ended() && !final_->has_ended()) return std::nullopt;
  v1::HeldEpoch held;
  *held.mutable_epoch() = epoch();
  for (const int rank : own()) held.add_ranks(rank);
  *held.mutable_devices() = record_.prepare().devices();
  held.set_job_ranks(record_.prepare().ranks());
  held.set_steps(record_.prepare().spec().train().steps());
  *held.mutable_rank_order() = record_.prepare().rank_order();
  held.set_started(record_.started());
  held.set_running(record_.running());
  for (const v1::JobProgress& progress : progress_) {
    if (progress.has_step()) held.set_step(progress.step().step());
  }
  if (rank_watch_.has_value()) {
    TrainerGroup& group = rank_watch_->group();
    for (int place = 0; place < group.size(); ++place) {
      const int64_t done = hang_watch_->PositionOf(group, place).step - 1;
      held.set_step(std::max(held.step(), done));
    }
  }
  return held;
}

void HeldEpoch::SayAgain() {
  if (ended()) {
    // The last checkpoint may still lack them.
    for (const v1::CheckpointFragments& each : record_.written()) SayFragments(each);
    return SayFinal();
  }
  OnPrepare();
  const std::deque<v1::JobProgress> progress = std::exchange(progress_, {});
  for (const v1::JobProgress& each : progress) OnProgress(each);
  for (const v1::CheckpointFragments& each : record_.written()) SayFragments(each);
  if (commit_.has_value()) SayCommit();
  if (stopping_at_.has_value()) {
    if (stop_by_ >= 0) stop_by_ = environment_->clock->Now() + kStopAnswerSeconds;
    SayStopping();
  }
  if (hang_.has_value()) Report(*hang_);
}

v1::EpochEnded HeldEpoch::HowItEnded() const {
  v1::EpochEnded ended;
  *ended.mutable_epoch() = epoch();
  ended.set_rank(-1);
  Judgement judgement;
  if (rank_watch_.has_value()) judgement = rank_watch_->Verdict();
  if (hang_.has_value()) {
    *ended.mutable_finished() = Failed(1, Describe(*hang_));
    ended.set_cause("hang");
    ended.set_rank(hang_->rank);
    ended.set_storage(hang_->storage);
    return ended;
  }
  const bool over = rank_watch_.has_value() && judgement.finished.outcome() != v1::Finished::FAILED;
  // Its peers' ends may have been heard of first, and a stop have come for them: the rank that
  // failed by itself is the cause all the same.
  if (!killed_reason_.empty() && !over && !judgement.found_culprit()) {
    *ended.mutable_finished() = Failed(1, killed_reason_);
    ended.set_cause(killed_cause_);
    ended.set_rank(killed_rank_);
    return ended;
  }
  *ended.mutable_finished() = judgement.finished;
  if (judgement.finished.outcome() == v1::Finished::INTERRUPTED) ended.set_cause("user");
  if (judgement.finished.outcome() != v1::Finished::FAILED) return ended;
  ended.set_echo(judgement.echo);
  ended.set_found(found_ended_);
  ended.set_cause(refused_commit_     ? "commit_failed"
                  : record_.running() ? "trainer_died"
                                      : "start_failed");
  if (judgement.checkpoint_problem.has_value()) {
    *ended.mutable_checkpoint_problem() = *judgement.checkpoint_problem;
  }
  if (judgement.cause < 0) return ended;
  const int rank = record_.prepare().own(judgement.cause);
  const std::string name = absl::StrCat("rank ", rank);
  if (!absl::StartsWith(judgement.finished.message(), name)) {
    ended.mutable_finished()->set_message(absl::StrCat(name, ": ", judgement.finished.message()));
  }
  // A rank that only misses another one is not the cause: that one's agent names it.
  if (!judgement.echo) ended.set_rank(rank);
  return ended;
}

void HeldEpoch::SayFinal() {
  if (environment_->connected_since >= 0) said_at_ = environment_->clock->Now();
  environment_->say(*final_);
}

}  // namespace strata::worker
