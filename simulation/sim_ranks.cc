// A node's ranks: how they start, save, commit and end. As worker/trainer, seen from its agent.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "simulation/cluster.h"
#include "simulation/sim_node.h"

namespace strata::simulation {

bool Part::Prepared() const {
  return static_cast<int>(trainers.size()) == prepare.own_size() &&
         std::all_of(trainers.begin(), trainers.end(),
                     [](const auto& entry) { return entry.second.prepared; });
}

bool Part::Running() const {
  return Prepared() && std::all_of(trainers.begin(), trainers.end(),
                                   [](const auto& entry) { return entry.second.running; });
}

// ---- beginning

void SimNode::Spawn(Part& part) {
  const EpochKey key = part.key();
  part.planning = false;
  cluster_.OnSpawn(key, part.prepare);
  for (int i = 0; i < part.prepare.own_size(); ++i) {
    const int rank = part.prepare.own(i), device = part.prepare.devices(i);
    part.trainers[rank] = {.rank = rank, .device = device};
    cluster_.oracle.OnTrainer(number_, device, key.job, key.epoch);
    const double slow = cluster_.random.Chance(0.1) ? 5 : 0.5;
    cluster_.events.After(cluster_.random.Between(0.05, slow),
                          [this, key, rank] { GetReady(key, rank); });
  }
}

void SimNode::GetReady(const EpochKey& key, int rank) {
  Part* part = Find(key);
  if (part == nullptr || !part->trainers.contains(rank)) return;
  if (part->trainers.at(rank).Still()) {
    return cluster_.events.After(0.5, [this, key, rank] { GetReady(key, rank); });
  }
  part->trainers.at(rank).prepared = true;
  Agent([this, key] {
    const Part* ready = Find(key);
    if (ready != nullptr && ready->Prepared() && !ready->killing) SayPrepared(*ready);
  });
}

// All connect and load; a start that is said again finds them at it.
void SimNode::Load(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing || part->Running()) return;
  const bool still = std::any_of(part->trainers.begin(), part->trainers.end(),
                                 [](const auto& entry) { return entry.second.Still(); });
  if (still) return cluster_.events.After(0.5, [this, key] { Load(key); });
  if (!LoadCheckpoint(*part)) return;
  for (auto& [rank, trainer] : part->trainers) trainer.running = true;
  Agent([this, key] {
    const Part* ready = Find(key);
    if (ready != nullptr && ready->Running() && !ready->killing) SayRunning(*ready);
  });
  cluster_.TryStep(key);
}

bool SimNode::LoadCheckpoint(Part& part) {
  const EpochKey key = part.key();
  if (part.trainers.empty()) return false;
  Trainer& first = part.trainers.begin()->second;
  if (first.last_word) return false;
  auto problem =
      cluster_.storages[key.job].Check(part.prepare, /*planning=*/false, cluster_.events.Now());
  const bool invents = cluster_.options.bug == PlantedBug::kInventsDamage &&
                       part.prepare.has_checkpoint() && cluster_.random.Chance(0.2);
  if (invents && !problem.has_value()) {
    problem.emplace();
    problem->set_epoch(part.prepare.checkpoint().epoch());
    problem->set_step(part.prepare.checkpoint().step());
  }
  if (!problem.has_value()) return true;
  first.last_word = Ended(key, v1::Finished::FAILED, first.rank, false, "start_failed");
  *first.last_word->mutable_checkpoint_problem() = *problem;
  Agent([this, key] { TakeNote(key); });
  return false;
}

// ---- checkpoints

void SimNode::OnWritten(const EpochKey& key, int64_t step) {
  Part* part = Find(key);
  if (part == nullptr || part->trainers.empty()) return;
  if (part->HasRankZero()) {
    if (part->announced.size() >= Part::kMostUncommitted) {
      part->held_up = step;
      return;
    }
    part->announced.insert(step);
  }
  part->newest_saved = step;
  part->written.insert(step);
  if (part->written.size() > Part::kFragmentsKept) part->written.erase(part->written.begin());
  Agent([this, key, step] {
    const Part* mine = Find(key);
    if (mine == nullptr || mine->killing) return;
    SayWritten(key, {mine->prepare.own().begin(), mine->prepare.own().end()}, step);
  });
}

void SimNode::AdvanceCommits(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing || !part->trainers.contains(0)) return;
  const Trainer& first = part->trainers.at(0);
  if (first.Still() || first.last_word) return;
  if (part->answer) ReadAnswer(*part);
  if (part->asked || part->writing_manifest || part->announced.empty()) return;
  const int64_t step = *part->announced.begin();
  if (!part->complete.contains(step)) return;
  part->writing_manifest = true;
  cluster_.events.After(cluster_.random.Between(0.002, 0.1),
                        [this, key, step] { WriteManifest(key, step); });
}

void SimNode::WriteManifest(const EpochKey& key, int64_t step) {
  Part* part = Find(key);
  if (part == nullptr || !part->trainers.contains(0)) return;
  part->writing_manifest = false;
  if (part->killing || part->trainers.at(0).Still()) return;
  part->asked.emplace();
  part->asked->set_epoch(key.epoch);
  part->asked->set_step(step);
  part->asked->set_path(absl::StrCat("/", key.job, "/.epoch-", key.epoch, "/step-", step));
  part->asked->set_manifest_digest(absl::StrCat(key.job, "-", key.epoch, "-", step));
  // All ranks have finished this step, or nobody could have written it.
  if (step <= cluster_.epochs[key].step) {
    cluster_.oracle.OnManifest(key.epoch, step, part->asked->manifest_digest());
  }
  Agent([this, key] {
    const Part* mine = Find(key);
    if (mine != nullptr && mine->asked && !mine->killing) SayCommit(*mine);
  });
}

void SimNode::ReadAnswer(Part& part) {
  const v1::CommitAnswer answer = *part.answer;
  part.answer.reset();
  if (!part.asked || part.asked->step() != answer.step()) return;
  const EpochKey key = part.key();
  const std::string digest = part.asked->manifest_digest();
  part.asked.reset();
  if (!answer.accepted()) {
    part.trainers.at(0).last_word = Ended(key, v1::Finished::FAILED, 0, false, "commit_failed");
    Agent([this, key] { TakeNote(key); });
    return;
  }
  const int64_t keep = part.prepare.spec().checkpoint().keep();
  for (const std::string& gone : cluster_.storages[key.job].Publish(answer.step(), digest, keep)) {
    cluster_.oracle.OnDeleted(key.job, gone);
  }
  part.announced.erase(answer.step());
  part.complete.erase(answer.step());
  if (part.held_up) {
    const int64_t step = *part.held_up;
    part.held_up.reset();
    OnWritten(key, step);
  }
  cluster_.events.After(0, [this, key] {
    FinishIfDone(key);
    cluster_.TryStep(key);
  });
}

// ---- the end

void SimNode::ObeyLastStep(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->last_step < 0 || part->trainers.empty()) return;
  const bool frozen = std::any_of(part->trainers.begin(), part->trainers.end(),
                                  [](const auto& entry) { return entry.second.Still(); });
  if (frozen || part->outcome != v1::Finished::OUTCOME_UNSPECIFIED) return;
  const int64_t step = cluster_.epochs[key].step;
  if (part->last_step < step) {
    cluster_.oracle.Violate(absl::StrCat(key.job, " is to stop after step ", part->last_step,
                                         " and has finished ", step));
  }
  if (step < part->last_step) return cluster_.TryStep(key);
  if (step > part->prepare.checkpoint().step() && step > part->newest_saved) OnWritten(key, step);
  OnFinalStep(key, v1::Finished::INTERRUPTED);
}

// Rank 0 waits for the last commit; the others have nothing left to do.
void SimNode::OnFinalStep(const EpochKey& key, v1::Finished::Outcome outcome) {
  Part* part = Find(key);
  if (part == nullptr || part->outcome != v1::Finished::OUTCOME_UNSPECIFIED) return;
  part->outcome = outcome;
  FinishIfDone(key);
}

void SimNode::FinishIfDone(const EpochKey& key) {
  const Part* part = Find(key);
  if (part == nullptr || part->outcome == v1::Finished::OUTCOME_UNSPECIFIED) return;
  if (!part->announced.empty() || part->held_up) return;
  cluster_.events.After(cluster_.random.Between(0, 0.5), [this, key] { Finish(key); });
}

void SimNode::Finish(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing) return;
  for (auto& [rank, trainer] : part->trainers) {
    if (trainer.Still()) return;  // when they wake
  }
  for (auto& [rank, trainer] : part->trainers) {
    if (!trainer.last_word) trainer.last_word = Ended(key, part->outcome, -1, false);
  }
  Agent([this, key] { TakeNote(key); });
}

void SimNode::TakeNote(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing) return;
  for (const auto& [rank, trainer] : part->trainers) {
    if (trainer.last_word) return EndPart(*part, *trainer.last_word);
  }
}

void SimNode::Reap(Part& part, int rank) {
  cluster_.oracle.OnTrainerGone(number_, part.trainers.at(rank).device, part.key().job,
                                part.key().epoch);
  part.trainers.erase(rank);
}

void SimNode::Die(const EpochKey& key, int rank) {
  Part* part = Find(key);
  if (part == nullptr || !part->trainers.contains(rank)) return;
  Reap(*part, rank);
  cluster_.LosePeer(key, this);
  if (part->killing) return;
  Agent([this, key, rank] {  // seen through its pidfd
    Part* left = Find(key);
    if (left != nullptr) EndPart(*left, Ended(key, v1::Finished::FAILED, rank, false));
  });
}

void SimNode::EndPart(Part& part, v1::EpochEnded ended) {
  if (part.killing) return;
  part.killing = true;
  const EpochKey key = part.key();
  const bool early = cluster_.options.bug == PlantedBug::kConfirmsTooEarly;
  if (early) SayEnded(ended);
  const double slow = early || cluster_.random.Chance(0.05) ? 3 : 0.1;
  cluster_.events.After(cluster_.random.Between(0.001, slow), [this, key, ended, early] {
    Part* dying = Find(key);
    if (dying == nullptr) return;
    const bool done = std::all_of(dying->trainers.begin(), dying->trainers.end(),
                                  [](const auto& entry) { return entry.second.last_word; });
    const bool abrupt = !done || ended.finished().outcome() == v1::Finished::FAILED;
    while (!dying->trainers.empty()) Reap(*dying, dying->trainers.begin()->first);
    Remember(*dying, ended);
    parts_.erase(key);
    if (abrupt) cluster_.LosePeer(key, this);
    if (!early) Agent([this, key] { SayGone(key); });
  });
}

void SimNode::OnPeerLost(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing || part->trainers.empty()) return;
  Trainer& trainer = part->trainers.begin()->second;
  if (trainer.Still() || trainer.last_word || !trainer.running) return;
  if (part->outcome != v1::Finished::OUTCOME_UNSPECIFIED) return;  // it needs nobody any more
  trainer.last_word = Ended(key, v1::Finished::FAILED, -1, true);
  Agent([this, key] { TakeNote(key); });
}

v1::EpochEnded SimNode::Ended(const EpochKey& key, v1::Finished::Outcome outcome, int rank,
                              bool echo, const std::string& cause) const {
  v1::EpochEnded ended;
  *ended.mutable_epoch() = controller::ToProto(key);
  ended.mutable_finished()->set_outcome(outcome);
  ended.mutable_finished()->set_message(echo ? "a connection broke" : "");
  ended.set_cause(outcome != v1::Finished::FAILED ? "" : cause.empty() ? "trainer_died" : cause);
  ended.set_rank(rank);
  ended.set_echo(echo);
  return ended;
}

}  // namespace strata::simulation
