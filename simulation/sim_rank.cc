// What a rank does: plans, loads, trains, saves, commits.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/fragments.h"
#include "simulation/cluster.h"
#include "simulation/sim_node.h"
#include "simulation/sim_process.h"

namespace strata::simulation {

using worker::Phase;

// ---- beginning

std::optional<v1::CheckpointProblem> SimProcess::CheckpointToBeginWith(bool planning) {
  Storage& storage = cluster_.storages[identity_.key.job];
  auto problem = storage.Check(task_.controlled(), planning, cluster_.events.Now());
  const bool invents = cluster_.options.bug == PlantedBug::kInventsDamage && !planning &&
                       task_.controlled().has_checkpoint() && cluster_.random.Chance(0.2);
  if (invents && !problem.has_value()) {
    problem.emplace();
    problem->set_epoch(task_.controlled().checkpoint().epoch());
    problem->set_step(task_.controlled().checkpoint().step());
  }
  return problem;
}

// One process of an epoch finds out what lies on the disk.
void SimProcess::Plan() {
  const EpochKey& key = identity_.key;
  Storage& storage = cluster_.storages[key.job];
  v1::TrainerEvent event;
  v1::JobPlan& plan = *event.mutable_plan();
  if (task_.controlled().recover()) {
    storage.Recover(task_.controlled());
    const bool adopts = task_.controlled().adopt_newer_checkpoint() &&
                        cluster_.options.bug != PlantedBug::kSeesNoNewerCheckpoint;
    const auto newer = adopts ? storage.FindNewer(task_.controlled()) : std::nullopt;
    if (newer.has_value()) {
      *plan.mutable_newer_checkpoint() = *newer;
      EpochKey written_by = key;
      written_by.epoch = newer->epoch();
      plan.set_newer_steps(cluster_.epochs[written_by].spec.train().steps());
      Send(event);
      return End(v1::Finished::SUCCEEDED, /*echo=*/false, "");
    }
    const std::string beside = storage.Beside(task_.controlled());
    // One of a start that is over may find what later ones have written.
    const auto job = cluster_.oracle.durable().find(key.job);
    const bool present = job != cluster_.oracle.durable().end() && job->second.epoch() == key.epoch;
    if (!beside.empty() && present) {
      cluster_.oracle.Violate(absl::StrCat(key.job, " starts anew beside ", beside));
    }
    const auto problem = CheckpointToBeginWith(/*planning=*/true);
    if (problem.has_value() || !beside.empty()) {
      return End(v1::Finished::FAILED, /*echo=*/false,
                 problem.has_value() ? problem->what() : absl::StrCat("beside ", beside),
                 problem.has_value() ? &*problem : nullptr);
    }
  }
  plan.set_parameters(1000);
  plan.set_plan_digest("plan");
  plan.set_epoch(key.epoch);
  plan.set_start_step(task_.controlled().checkpoint().step());
  v1::DataFile& file = *plan.add_data_files();
  file.set_path(absl::StrCat("/data/", key.job));
  file.set_bytes(1000);
  file.set_digest(key.uid);
  Send(event);
  End(v1::Finished::SUCCEEDED, /*echo=*/false, "");
}

void SimProcess::Prepare() {
  SetPhase(Phase::kJoining);
  v1::TrainerEvent event;
  v1::Prepared& prepared = *event.mutable_prepared();
  prepared.set_address(absl::StrCat(node_.name(), "-", identity_.rank));
  prepared.set_plan_digest(task_.plan().plan_digest());
  v1::Peers& peers = *prepared.mutable_peers();
  v1::GroupDigest& group = *prepared.add_groups();
  group.set_group("data");
  group.set_digest("calls");
  for (int rank = 0; rank < task_.ranks(); ++rank) {
    group.add_members(rank);
    if (rank != identity_.rank) peers.add_ranks(rank);
  }
  Send(event);
}

void SimProcess::OnAllStarted() {
  if (last_word_.has_value()) return;
  Do([this] {
    SetPhase(Phase::kLoading);
    After(cluster_.StallOf(identity_.key.job) + cluster_.random.Between(0.05, 1),
          [this] { Load(); });
  });
}

void SimProcess::Load() {
  if (last_word_.has_value() || running_) return;
  const auto problem = CheckpointToBeginWith(/*planning=*/false);
  if (problem.has_value()) {
    return End(v1::Finished::FAILED, /*echo=*/false, "the checkpoint cannot be read", &*problem);
  }
  running_ = true;
  SetPhase(Phase::kTraining);
  v1::TrainerEvent event;
  event.mutable_running();
  Send(event);
  cluster_.TryStep(identity_.key);
}

// ---- training

bool SimProcess::Computes() const {
  return running_ && !Still() && !hung_ && !last_word_.has_value();
}

bool SimProcess::MayBegin(int64_t step) const {
  if (!Computes() || asked_for_step_ || writing_ != 0 || held_up_.has_value()) return false;
  return last_step_ < 0 || step <= last_step_;
}

void SimProcess::OnStepDone(int64_t step, bool save, bool final_step) {
  const bool last = last_step_ == step;
  if (save || last) BeginSave(step);
  v1::TrainerEvent event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_epoch(identity_.key.epoch);
  Send(event);
  if (final_step) FinishWith(v1::Finished::SUCCEEDED);
  if (!final_step && last) FinishWith(v1::Finished::INTERRUPTED);
}

void SimProcess::OnPeerLost() {
  if (!alive_ || Still() || last_word_.has_value() || !started_) return;
  if (outcome_ != v1::Finished::OUTCOME_UNSPECIFIED) return;  // it needs nobody any more
  End(v1::Finished::FAILED, /*echo=*/true, "a connection broke");
}

void SimProcess::StopAsked() {
  const EpochWorld& world = cluster_.epochs[identity_.key];
  asked_for_step_ = last_step_ < 0;
  v1::TrainerEvent event;
  event.mutable_stopping()->set_step(world.step + (world.in_step ? 1 : 0));
  Send(event);
}

void SimProcess::ObeyLastStep() {
  if (last_word_.has_value() || outcome_ != v1::Finished::OUTCOME_UNSPECIFIED) return;
  const int64_t step = cluster_.epochs[identity_.key].step;
  if (last_step_ < step) {
    cluster_.oracle.Violate(absl::StrCat(identity_.key.job, " is to stop after step ", last_step_,
                                         " and has finished ", step));
  }
  if (step < last_step_) return cluster_.TryStep(identity_.key);
  if (step > task_.plan().start_step() && step > newest_saved_) BeginSave(step);
  FinishWith(v1::Finished::INTERRUPTED);
}

// ---- checkpoints

void SimProcess::BeginSave(int64_t step) {
  if (identity_.rank == 0) {
    if (announced_.size() >= size_t{protocol::kMostUncommitted}) {
      held_up_ = step;
      return SetPhase(Phase::kCommitting);
    }
    announced_.insert(step);
  }
  if (cluster_.storages[identity_.key.job].Full(cluster_.events.Now())) {
    return End(v1::Finished::FAILED, /*echo=*/false, "No space left on device (write)");
  }
  newest_saved_ = writing_ = step;
  writing_since_ = cluster_.events.Now();
  After(cluster_.StallOf(identity_.key.job) + cluster_.random.Between(0.002, 0.05),
        [this, step] { Written(step); });
}

void SimProcess::Written(int64_t step) {
  if (last_word_.has_value()) return;
  writing_ = 0;
  ++own_ticks_;
  v1::TrainerEvent event;
  event.mutable_written()->set_step(step);
  event.mutable_written()->set_fragment(absl::StrCat("f", identity_.rank));
  Send(event);
  if (cluster_.options.bug == PlantedBug::kInventsManifests && identity_.rank == 0 && !asked_) {
    WriteManifest(step + 1);
  }
  FinishIfDone();
  cluster_.TryStep(identity_.key);
}

void SimProcess::AdvanceCommits() {
  if (last_word_ || asked_ || writing_manifest_ || announced_.empty()) return;
  const int64_t step = *announced_.begin();
  if (!complete_.contains(step)) return;
  writing_manifest_ = true;
  After(cluster_.StallOf(identity_.key.job) + cluster_.random.Between(0.002, 0.1), [this, step] {
    writing_manifest_ = false;
    if (!last_word_.has_value()) WriteManifest(step);
  });
}

void SimProcess::WriteManifest(int64_t step) {
  const EpochKey& key = identity_.key;
  asked_ = step;
  const std::string digest = Cluster::CheckpointOf(key, step).manifest_digest();
  // All ranks have finished this step, or nobody could have written it.
  if (step <= cluster_.epochs[key].step) {
    cluster_.oracle.OnManifest(key.epoch, step, digest);
    cluster_.storages[key.job].Write(Cluster::CheckpointOf(key, step));
  }
  if (cluster_.options.bug == PlantedBug::kPublishesUnrecorded) cluster_.OnPublish(key, step);
  v1::TrainerEvent event;
  event.mutable_record()->set_step(step);
  event.mutable_record()->set_manifest_digest(digest);
  Send(event);
}

void SimProcess::OnAnswer(const v1::CheckpointAnswer& answer) {
  answered_ = std::max(answered_, answer.step());
  std::erase_if(remembered_, [&](const auto& each) {
    return each.has_record() && each.record().step() == answer.step();
  });
  if (!asked_ || *asked_ != answer.step() || last_word_.has_value()) return;
  asked_.reset();
  if (!answer.accepted()) {
    return End(v1::Finished::FAILED, task_.ranks() > 1, "the controller refuses the checkpoint");
  }
  const EpochKey& key = identity_.key;
  cluster_.OnPublish(key, answer.step());
  announced_.erase(answer.step());
  complete_.erase(answer.step());
  v1::TrainerEvent event;
  event.mutable_committed()->set_step(answer.step());
  Send(event);
  if (held_up_.has_value()) {
    if (outcome_ == v1::Finished::OUTCOME_UNSPECIFIED) SetPhase(Phase::kTraining);
    BeginSave(*std::exchange(held_up_, std::nullopt));
  }
  AdvanceCommits();
  FinishIfDone();
  cluster_.TryStep(key);
}

// ---- the end

void SimProcess::FinishWith(v1::Finished::Outcome outcome) {
  if (outcome_ != v1::Finished::OUTCOME_UNSPECIFIED) return;
  outcome_ = outcome;
  SetPhase(Phase::kCommitting);
  FinishIfDone();
}

// Rank 0 waits for the last commit; the others have nothing left to do.
void SimProcess::FinishIfDone() {
  if (outcome_ == v1::Finished::OUTCOME_UNSPECIFIED) return;
  if (writing_ != 0 || !announced_.empty() || held_up_.has_value()) return;
  After(cluster_.random.Between(0, 0.5), [this] { End(outcome_, /*echo=*/false, ""); });
}

// ---- where it is

int64_t SimProcess::step() const {
  return running_ ? cluster_.epochs.at(identity_.key).step + 1 : 0;
}

uint64_t SimProcess::ticks() const {
  return own_ticks_ + static_cast<uint64_t>(std::max<int64_t>(0, step()));
}

int64_t SimProcess::checkpoint_step() const { return newest_saved_ == 0 ? 0 : newest_saved_ + 1; }

bool SimProcess::BetweenSteps() const {
  const int64_t done = cluster_.epochs.at(identity_.key).step;
  return asked_for_step_ || held_up_.has_value() || (last_step_ >= 0 && done >= last_step_);
}

uint64_t SimProcess::Begun(const std::string& group, int) const {
  if (group != "data" || !running_) return 0;
  return static_cast<uint64_t>(step() - (BetweenSteps() || hung_ || writing_ != 0 ? 1 : 0));
}

bool SimProcess::in_storage_operation() const {
  const bool reads = phase_ == Phase::kLoading || (phase_ == Phase::kTraining && !hung_);
  return writing_ != 0 || (reads && cluster_.StallOf(identity_.key.job) > 0);
}

double SimProcess::storage_tick() const {
  if (writing_ != 0) return writing_since_;
  return in_storage_operation() ? std::max(phase_begin_, cluster_.epochs.at(identity_.key).moved_at)
                                : 0;
}

// Instructions are in flight only while it trains.
std::vector<worker::ProgressView::Activity> SimProcess::Activities() const {
  if (phase_ != Phase::kTraining) return {};
  const EpochWorld& world = cluster_.epochs.at(identity_.key);
  const bool stalled = cluster_.StallOf(identity_.key.job) > 0;
  Activity activity;
  activity.begin = std::max(world.moved_at, phase_begin_);
  activity.slowest = world.moved ? cluster_.step_seconds : 0;
  if (hung_) {
    activity.label = "forward";
  } else if (writing_ != 0) {
    activity.label = "snapshot gate";
    activity.storage = true;
    activity.begin = std::max(activity.begin, writing_since_);
  } else if (stalled) {
    activity.label = "load batch";
    activity.storage = true;
  } else if (BetweenSteps()) {
    return {};
  } else {
    activity.label = "reduce";
    activity.group = "data";
    activity.sequence = static_cast<uint64_t>(step());
  }
  return {activity};
}

std::string SimProcess::DescribePosition() const { return absl::StrCat("step ", step()); }

}  // namespace strata::simulation
