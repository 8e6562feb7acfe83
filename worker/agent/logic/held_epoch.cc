// The life of an epoch's trainers.
#include "worker/agent/logic/held_epoch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "protocol/exit_codes.h"
#include "protocol/predicted_memory.h"
#include "worker/agent/logic/room.h"
#include "worker/agent/logic/verdict.h"

namespace strata::worker {
namespace {

// A session that has stood so long has carried what was said at its beginning.
// A controller that restarts meanwhile hears it again.
constexpr double kConfirmedSeconds = 60;
// A rank elsewhere is reported again as long as it is missed.
constexpr double kMissedEverySeconds = 1;

v1::RecordedCheckpoint Recorded(const v1::CommittedCheckpoint& checkpoint) {
  v1::RecordedCheckpoint recorded;
  recorded.set_epoch(checkpoint.epoch());
  recorded.set_step(checkpoint.step());
  recorded.set_manifest_digest(checkpoint.manifest_digest());
  return recorded;
}

HangLimits LimitsOf(const v1::HeldEpochRecord& record) {
  HangLimits limits;
  const v1::TimingPolicy& timing = record.timing();
  if (timing.has_suspect_seconds()) limits.suspect_seconds = timing.suspect_seconds();
  if (timing.has_hang_seconds()) limits.hang_seconds = timing.hang_seconds();
  if (timing.has_phase_seconds()) limits.phase_seconds = timing.phase_seconds();
  if (timing.has_storage_seconds()) limits.storage_seconds = timing.storage_seconds();
  if (timing.storage_bytes_per_second() > 0) {
    limits.storage_bytes_per_second = timing.storage_bytes_per_second();
  }
  limits.ranks = record.prepare().ranks();
  // What its arenas hold is more than what a rank loads or writes of its state.
  for (const int rank : record.prepare().own()) {
    for (const v1::TierBytes& tier : protocol::PredictedOf(record.plan(), rank))
      limits.bytes += tier.bytes();
  }
  return limits;
}

v1::EpochPrepared Problem(const std::string& what, bool permanent) {
  v1::EpochPrepared problem;
  problem.set_problem(what);
  problem.set_permanent(permanent);
  return problem;
}

}  // namespace

HeldEpoch::HeldEpoch(EpochEnvironment* environment, v1::PrepareEpoch prepare)
    : environment_(environment) {
  *record_.mutable_prepare() = std::move(prepare);
  record_.set_boot_id(environment->boot_id);
  host_ = environment->host->OpenEpoch(record_.prepare());
}

HeldEpoch::~HeldEpoch() = default;

std::vector<int> HeldEpoch::own() const {
  return {record_.prepare().own().begin(), record_.prepare().own().end()};
}

bool HeldEpoch::first() const {
  const std::vector<int> ranks = own();
  return std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
}

GroupWatch* HeldEpoch::watch() {
  if (rank_watch_.has_value()) return &*rank_watch_;
  return plan_watch_.has_value() ? &*plan_watch_ : nullptr;
}

v1::TrainerTask HeldEpoch::MakeTask() const {
  const v1::PrepareEpoch& prepare = record_.prepare();
  v1::TrainerTask task;
  task.set_kind(v1::TrainerTask::KIND_TRAIN);
  *task.mutable_job() = prepare.spec();
  task.set_job_directory(prepare.directory());
  task.set_ranks(prepare.ranks());
  task.set_ranks_on_node(static_cast<int>(prepare.own_size()));
  task.set_threads(environment_->threads_per_device);
  task.set_data_devices(environment_->data_devices);
  *task.mutable_roots() = prepare.roots();
  *task.mutable_rank_order() = prepare.rank_order();
  v1::Controlled& controlled = *task.mutable_controlled();
  controlled.set_job(prepare.epoch().job());
  controlled.set_epoch(prepare.epoch().epoch());
  controlled.set_attempt(prepare.attempt());
  controlled.set_recover(first());
  controlled.set_adopt_newer_checkpoint(first() && prepare.adopt_newer_checkpoint());
  if (prepare.has_checkpoint()) {
    *controlled.mutable_checkpoint() = Recorded(prepare.checkpoint());
  }
  for (const v1::CommittedCheckpoint& damaged : prepare.damaged()) {
    *controlled.add_damaged() = Recorded(damaged);
  }
  *task.mutable_plan() = record_.plan();
  // It was measured between ranks of this machine alone.
  const bool all_here = prepare.own_size() == prepare.ranks();
  if (all_here && environment_->profile != nullptr) {
    std::optional<v1::Profile> profile = environment_->profile();
    if (profile.has_value()) *task.mutable_profile() = *std::move(profile);
  }
  return task;
}

void HeldEpoch::Begin() {
  stage_ = Stage::kOpening;
  *record_.mutable_timing() = environment_->timing;
  open_by_ = environment_->clock->Now() + LimitsOf(record_).storage_seconds;
  Open();
}

void HeldEpoch::Open() {
  const std::optional<absl::Status> opened = host_->Open();
  if (!opened.has_value() && environment_->clock->Now() > open_by_) {
    return Refuse(Problem(absl::StrCat(record_.prepare().directory(),
                                       ": it, or the folder for checkpoints, does not answer "
                                       "(a file system that hangs)"),
                          /*permanent=*/false));
  }
  if (!opened.has_value()) return;
  stage_ = Stage::kPlanning;
  const absl::Status status = opened->ok() ? StartPlanning() : *opened;
  if (!status.ok()) Refuse(Problem(std::string(status.message()), IsPermanent(status)));
}

bool HeldEpoch::HasTrained() const {
  return record_.prepare().has_checkpoint() || record_.prepare().damaged_size() > 0;
}

// What cannot be at the first start will not be at the next. A job that has trained here already
// was right once: what it misses may come back, and its restarts are counted.
bool HeldEpoch::IsPermanent(const absl::Status& status) const {
  return absl::IsInvalidArgument(status) && !HasTrained();
}

absl::Status HeldEpoch::StartPlanning() {
  std::vector<std::unique_ptr<Trainer>> planner(1);
  ASSIGN_OR_RETURN(planner.front(), host_->StartPlanner());
  plan_task_.emplace(MakeTask());
  plan_watch_.emplace(TrainerGroup({own().front()}, std::move(planner)), &*plan_task_,
                      environment_->clock, /*leased=*/false);
  plan_watch_->Begin();
  return absl::OkStatus();
}

void HeldEpoch::ReportNewer() {
  const v1::RecordedCheckpoint& found = plan_task_->plan()->newer_checkpoint();
  v1::EpochPrepared newer = Problem(
      absl::StrCat("a checkpoint of step ", found.step(), " is there, newer than the recorded one"),
      /*permanent=*/false);
  newer.mutable_newer_checkpoint()->set_epoch(found.epoch());
  newer.mutable_newer_checkpoint()->set_step(found.step());
  newer.mutable_newer_checkpoint()->set_manifest_digest(found.manifest_digest());
  newer.mutable_newer_checkpoint()->set_path(CheckpointPath(found.step()));
  newer.set_newer_steps(plan_task_->plan()->newer_steps());
  Refuse(std::move(newer));
}

void HeldEpoch::PlanningEnded() {
  const Judgement judgement = plan_watch_->Verdict();
  ForwardLogs(/*last=*/true);
  plan_watch_.reset();
  if (!killed_reason_.empty()) return Finish();
  if (judgement.finished.outcome() != v1::Finished::SUCCEEDED) {
    const int code = judgement.finished.exit_code();
    v1::EpochPrepared problem = Problem(
        judgement.finished.message(),
        (code == protocol::kExitUsage || code == protocol::kExitInfeasible) && !HasTrained());
    if (judgement.checkpoint_problem.has_value()) {
      *problem.mutable_checkpoint_problem() = *judgement.checkpoint_problem;
    }
    return Refuse(std::move(problem));
  }
  if (!plan_task_->plan().has_value()) {
    return Refuse(Problem("the planning process gave no plan", /*permanent=*/false));
  }
  if (plan_task_->plan()->has_newer_checkpoint()) return ReportNewer();
  *record_.mutable_plan() = *plan_task_->plan();
  for (const v1::Notice& notice : record_.plan().notices()) {
    v1::JobProgress progress;
    *progress.mutable_notice() = notice;
    OnProgress(progress);
  }
  record_.mutable_plan()->clear_notices();
  if (const std::string notice = host_->Notice(); !notice.empty()) {
    v1::JobProgress progress;
    progress.mutable_notice()->set_severity(v1::Notice::SEVERITY_WARNING);
    progress.mutable_notice()->set_text(notice);
    OnProgress(progress);
    *record_.mutable_plan()->add_notices() = progress.notice();  // for the job's reason, too
  }
  bool permanent = false;
  absl::Status status = CheckFits(&permanent);
  if (status.ok()) {
    status = StartRanks();
    permanent = IsPermanent(status);
  }
  if (!status.ok()) Refuse(Problem(std::string(status.message()), permanent));
}

// What is free changes; what the machine has does not.
absl::Status HeldEpoch::CheckFits(bool* permanent) const {
  const MachineRoom room = host_->Room();
  if (first() && room.disk_bytes.has_value()) {
    *permanent = !HasTrained();
    RETURN_IF_ERROR(CheckRoom(record_.plan(), record_.prepare().spec().checkpoint().directory(),
                              *room.disk_bytes));
  }
  if (!room.memory.has_value()) return absl::OkStatus();
  const std::vector<int> ranks = own();
  *permanent = true;
  const std::string& device = record_.prepare().spec().resources().device();
  const auto check = [&](int64_t bytes, absl::string_view whose) {
    return CheckMemory(record_.plan(), ranks, device, bytes, whose);
  };
  RETURN_IF_ERROR(check(room.memory->total_bytes, "this node has"));
  *permanent = false;
  return check(room.memory->available_bytes, "free on this node are");
}

absl::Status HeldEpoch::StartRanks() {
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Trainer>> trainers, host_->StartRanks());
  TrainerGroup group(own(), std::move(trainers));
  for (int place = 0; place < group.size(); ++place) {
    v1::HeldEpochRecord::Trainer* const trainer = record_.add_trainers();
    trainer->set_rank(group.rank(place));
    trainer->set_pid(group[place].pid());
    trainer->set_start_time(group[place].start_time());
  }
  *record_.mutable_timing() = environment_->timing;
  // Before they get their lease: until then they end with this process.
  RETURN_IF_ERROR(host_->SaveRecord(record_));
  v1::TrainerTask task = MakeTask();
  v1::Lease& lease = *task.mutable_controlled()->mutable_lease();
  lease.set_seconds(environment_->lease_seconds);
  lease.set_socket(environment_->trainer_socket);
  job_task_.emplace(std::move(task), own(), static_cast<Overseer*>(this));
  rank_watch_.emplace(std::move(group), &*job_task_, environment_->clock, /*leased=*/true);
  hang_watch_.emplace(record_.trainers_size(), LimitsOf(record_), environment_->clock);
  stage_ = Stage::kHolding;
  rank_watch_->Begin();
  return absl::OkStatus();
}

void HeldEpoch::OnTiming() {
  if (!rank_watch_.has_value() || ended()) return;
  *record_.mutable_timing() = environment_->timing;
  SaveRecord();
  rank_watch_->SetLease(environment_->lease_seconds);
  hang_watch_->SetLimits(LimitsOf(record_));
}

std::unique_ptr<HeldEpoch> HeldEpoch::Adopt(EpochEnvironment* environment,
                                            const v1::HeldEpochRecord& record) {
  auto adopted = std::make_unique<HeldEpoch>(environment, record.prepare());
  HeldEpoch& epoch = *adopted;
  epoch.record_ = record;
  if (record.has_final()) {
    epoch.stage_ = Stage::kEnded;
    epoch.final_ = record.final();
    return adopted;
  }
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (const v1::HeldEpochRecord::Trainer& trainer : record.trainers()) {
    trainers.push_back(epoch.host_->FindAgain(trainer));
  }
  const std::vector<int> ranks = epoch.own();
  epoch.job_task_.emplace(epoch.MakeTask(), ranks, static_cast<Overseer*>(&epoch));
  epoch.hang_watch_.emplace(static_cast<int>(ranks.size()), LimitsOf(record), environment->clock);
  for (int place = 0; place < record.prepared().ranks_size(); ++place) {
    epoch.hang_watch_->SetGroups(place, record.prepared().ranks(place).prepared());
  }
  epoch.stage_ = Stage::kHolding;
  epoch.rank_watch_.emplace(TrainerGroup(ranks, std::move(trainers)), &*epoch.job_task_,
                            environment->clock, /*leased=*/true);
  epoch.NoteUnread();
  epoch.found_ended_ = true;
  epoch.back_by_ = environment->clock->Now() + environment->lease_seconds;
  // Another node may hold a later epoch, whose records must not be cut: see OnKept.
  if (epoch.first() && record.started()) epoch.job_task_->HoldBack();
  if (epoch.rank_watch_->done() && !epoch.ended()) epoch.Finish();
  return adopted;
}

void HeldEpoch::NoteUnread() {
  TrainerGroup& group = rank_watch_->group();
  for (int place = 0; place < group.size(); ++place) {
    if (!group[place].reaped() && group[place].progress() == nullptr) {
      adopted_unread_.push_back(place);
    }
  }
  if (adopted_unread_.empty()) return;
  v1::JobProgress progress;
  progress.mutable_notice()->set_severity(v1::Notice::SEVERITY_WARNING);
  progress.mutable_notice()->set_text(
      absl::StrCat("rank ", group.rank(adopted_unread_.front()),
                   " shows no position that can be read (another version?): nobody watches whether "
                   "it stands still"));
  OnProgress(progress);
}

// The next start of the ranks replaces the file, whose bytes an open descriptor would keep on the
// disk for as long as the end is said again. What comes late is still waited for.
void HeldEpoch::CloseRecords() {
  if (records_ == nullptr || job_task_->WaitsForRecords()) return;
  job_task_->Close();
  records_.reset();
}

// The holder of the current epoch publishes: from its start on, not before.
absl::Status HeldEpoch::OpenRecords() {
  if (!first() || !record_.started() || published_) return absl::OkStatus();
  auto opened = host_->OpenRecords(record_.plan().start_step());
  opening_records_ = !opened.has_value();
  if (opening_records_) return absl::OkStatus();
  RETURN_IF_ERROR(opened->status());
  published_ = true;
  const int64_t published = (*opened)->published;
  records_ = std::move((*opened)->records);
  job_task_->Publish(records_.get(), published);
  RETURN_IF_ERROR(job_task_->PublishHeldBack(rank_watch_->group()));
  if (ended()) CloseRecords();
  if (!(*opened)->missing) return absl::OkStatus();
  v1::JobProgress progress;
  progress.mutable_notice()->set_severity(v1::Notice::SEVERITY_WARNING);
  progress.mutable_notice()->set_text(
      absl::StrCat("some step records up to step ", published, " are no longer in ",
                   record_.prepare().directory(), "/metrics.jsonl"));
  OnProgress(progress);
  return absl::OkStatus();
}

absl::Status HeldEpoch::PublishWhatIsThere() {
  if (opening_records_) {
    RETURN_IF_ERROR(OpenRecords());
    if (!ended()) DeliverStart();
  }
  RETURN_IF_ERROR(job_task_->PublishWritten(rank_watch_->group()));
  if (ended()) CloseRecords();
  return absl::OkStatus();
}

bool HeldEpoch::Expects(int rank, int64_t pid) {
  if (!rank_watch_.has_value()) return false;
  TrainerGroup& group = rank_watch_->group();
  for (int place = 0; place < group.size(); ++place) {
    const bool lives = group.rank(place) == rank && !group[place].reaped();
    if (lives && group[place].pid() == pid) return true;
  }
  return false;
}

void HeldEpoch::OnAttached(int rank) {
  TrainerGroup& group = rank_watch_->group();
  for (int place = 0; place < group.size(); ++place) {
    if (group.rank(place) == rank) rank_watch_->OnAttached(place);
  }
  found_ended_ = false;
  DeliverStart();
  const absl::Status status = job_task_->OnAttached(group);
  if (!status.ok()) Kill("commit_failed", std::string(status.message()));
}

double HeldEpoch::deadline() const {
  if (rank_watch_.has_value()) return rank_watch_->deadline();
  return plan_watch_.has_value() ? plan_watch_->deadline() : -1;
}

void HeldEpoch::HandleDeadlines() {
  GroupWatch* const group = watch();
  if (group == nullptr || ended()) return;
  group->HandleDeadline();
  if (!group->done()) return;
  if (plan_watch_.has_value()) return PlanningEnded();
  Finish();
}

void HeldEpoch::Tick() {
  if (stage_ == Stage::kOpening) Open();
  HandleDeadlines();
  if (rank_watch_.has_value()) {  // also after its end: records may come late
    const absl::Status status = PublishWhatIsThere();
    if (!status.ok()) {
      Kill(record_.running() ? "trainer_died" : "start_failed", std::string(status.message()));
    }
  }
  if (!rank_watch_.has_value() || ended()) return ForwardLogs(/*last=*/false);
  const double now = environment_->clock->Now();
  rank_watch_->Acknowledge();
  if (back_by_ >= 0 && now > back_by_) {
    back_by_ = -1;
    TrainerGroup& group = rank_watch_->group();
    for (int place = 0; place < group.size(); ++place) {
      if (group[place].reaped() || group[place].connected()) continue;
      Kill("trainer_died", absl::StrCat("rank ", group.rank(place),
                                        " did not find the agent that was started again"));
    }
  }
  // A controller that is away answers when it is back.
  if (stop_by_ >= 0 && now > stop_by_ && environment_->connected_since >= 0) {
    Kill("user", "the other nodes' last step did not become known in time");
  }
  WatchForHangs();
  ForwardLogs(/*last=*/false);
}

void HeldEpoch::WatchForHangs() {
  if (rank_watch_->stopping()) return;
  if (!adopted_unread_.empty()) {
    // A trainer of another version, whose position cannot be read, is no trainer that stands still.
    TrainerGroup& group = rank_watch_->group();
    const bool unread = std::any_of(adopted_unread_.begin(), adopted_unread_.end(), [&](int place) {
      return !group[place].reaped() && group[place].progress() == nullptr;
    });
    if (unread) return;
    adopted_unread_.clear();
  }
  const std::optional<HangVerdict> verdict =
      hang_watch_->Look(rank_watch_->group(), environment_->connected_since);
  if (!verdict.has_value()) return;
  if (verdict->suspected) return Report(*verdict);
  const double now = environment_->clock->Now();
  if (!verdict->local && missed_at_ >= 0 && now - missed_at_ < kMissedEverySeconds) return;
  missed_at_ = now;
  Report(*verdict);
  if (!verdict->local) return;
  hang_ = verdict;
  rank_watch_->KillAll();
}

void HeldEpoch::Kill(const std::string& cause, const std::string& reason) {
  if (ended()) return;
  if (killed_reason_.empty()) {
    killed_cause_ = cause;
    killed_reason_ = reason;
  }
  GroupWatch* const group = watch();
  if (group == nullptr || group->done()) return Finish();
  group->KillAll();
}

void HeldEpoch::LetGo() {
  if (rank_watch_.has_value()) rank_watch_->group().LetGo();
}

void HeldEpoch::SaveRecord() {
  if (const absl::Status status = host_->SaveRecord(record_); !status.ok()) {
    Kill("trainer_died", std::string(status.message()));
  }
}

void HeldEpoch::Refuse(v1::EpochPrepared problem) {
  problem_ = std::move(problem);
  Kill("start_failed", problem_->problem());
}

void HeldEpoch::Finish() {
  ForwardLogs(/*last=*/true);
  // An error cannot end more than has ended.
  if (rank_watch_.has_value()) {
    static_cast<void>(job_task_->PublishWritten(rank_watch_->group()));
  }
  stage_ = Stage::kEnded;
  CloseRecords();
  host_->Unlock();
  final_.emplace();
  if (problem_.has_value()) {
    *final_->mutable_prepared() = *problem_;
    *final_->mutable_prepared()->mutable_epoch() = epoch();
  } else {
    *final_->mutable_ended() = HowItEnded();
  }
  if (record_.trainers_size() > 0) {
    *record_.mutable_final() = *final_;
    const absl::Status saved = host_->SaveRecord(record_);
    if (!saved.ok()) Forget();  // else it would be taken for one with ranks to be found
  }
  SayFinal();
}

void HeldEpoch::Forget() { host_->RemoveRecord(record_); }

bool HeldEpoch::Confirmed(double now) const {
  return ended() && said_at_ >= 0 && now - said_at_ > kConfirmedSeconds;
}

}  // namespace strata::worker
