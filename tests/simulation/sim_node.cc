// The machine: processes, and what breaks.
#include "tests/simulation/sim_node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/cluster.h"

namespace strata::simulation {
namespace {

constexpr double kLeaseSeconds = 30;
constexpr double kKeepaliveSeconds = 15;

}  // namespace

bool Part::Prepared() const {
  return static_cast<int>(trainers.size()) == prepare.own_size() &&
         std::all_of(trainers.begin(), trainers.end(),
                     [](const auto& entry) { return entry.second.prepared; });
}

bool Part::Running() const {
  return Prepared() && std::all_of(trainers.begin(), trainers.end(),
                                   [](const auto& entry) { return entry.second.running; });
}

SimNode::SimNode(Cluster& cluster, int number, int devices)
    : cluster_(cluster), number_(number), devices_(devices) {}

std::string SimNode::name() const { return absl::StrCat("n", number_); }

Part* SimNode::Find(const EpochKey& key) {
  const auto found = parts_.find(key);
  return found == parts_.end() ? nullptr : &found->second;
}

void SimNode::Agent(std::function<void()> what) {
  if (!alive_) return;
  if (frozen_) {
    put_off_.push_back(std::move(what));
  } else {
    what();
  }
}

void SimNode::AgentAfter(double delay, std::function<void()> what) {
  cluster_.events.After(delay, [this, life = life_, what = std::move(what)] {
    if (life == life_) Agent(what);
  });
}

// ---- the agent's process

void SimNode::Boot() {
  if (alive_) return;
  alive_ = true;
  frozen_ = false;
  absent_since_ = -1;
  ++life_;
  incarnation_ = cluster_.random.Next() | 1;
  if (!cluster_.keeps_ends_on_disk) ended_lately_.clear();
  SurveyTrainers();
  Beat();
  Connect();
}

// What the predecessor left: the dead are noted, the living are taken over.
void SimNode::SurveyTrainers() {
  if (cluster_.options.bug == PlantedBug::kForgetsTrainers) {
    parts_forgotten_.merge(parts_);
    parts_.clear();
  }
  std::vector<EpochKey> keys;
  for (const auto& [key, part] : parts_) keys.push_back(key);
  for (const EpochKey& key : keys) {
    Part& part = parts_.at(key);
    if (part.killing) continue;  // the kernel is at it
    if (part.trainers.empty()) {
      ended_lately_.push_back(Ended(key, v1::Finished::FAILED, -1, false));
      parts_.erase(key);
    } else if (static_cast<int>(part.trainers.size()) != part.prepare.own_size()) {
      EndPart(part, Ended(key, v1::Finished::FAILED, -1, false));
    } else {
      TakeNote(key);
    }
  }
}

void SimNode::KillAgent(double back_after) {
  if (!alive_) return;
  alive_ = frozen_ = false;
  ++life_;
  put_off_.clear();
  if (link_ != nullptr) {
    link_->down.Close();
    link_->Break();
  }
  link_ = nullptr;
  absent_since_ = cluster_.events.Now();
  CheckLease(absent_since_);
  cluster_.events.After(back_after, [this] { Boot(); });
}

// Trainers that hear nothing from an agent for a lease end themselves.
void SimNode::CheckLease(double absent_since) {
  cluster_.events.After(kLeaseSeconds, [this, absent_since] {
    if (absent_since_ == absent_since) EndOwnLease();
  });
}

void SimNode::EndOwnLease() {
  std::vector<std::pair<EpochKey, int>> gone;
  for (const auto& [key, part] : parts_) {
    for (const auto& [rank, trainer] : part.trainers) {
      if (!trainer.frozen) gone.push_back({key, rank});
    }
  }
  for (const auto& [key, rank] : gone) Die(key, rank);
}

void SimNode::Reboot(double back_after) {
  KillAgent(back_after);
  std::vector<std::pair<EpochKey, int>> gone;
  for (const auto& [key, part] : parts_) {
    for (const auto& [rank, trainer] : part.trainers) gone.push_back({key, rank});
  }
  for (const auto& [key, rank] : gone) Die(key, rank);
}

void SimNode::Freeze(double seconds, bool trainers) {
  if (!AgentAwake()) return;
  frozen_ = true;
  absent_since_ = cluster_.events.Now();
  if (!trainers) CheckLease(absent_since_);
  for (auto& [key, part] : parts_) {
    for (auto& [rank, trainer] : part.trainers) trainer.frozen = trainer.frozen || trainers;
  }
  if (seconds > kKeepaliveSeconds && cluster_.random.Chance(0.7)) {
    cluster_.events.After(kKeepaliveSeconds, [this, link = link_] {
      if (link != nullptr && link == link_) link->Break();
    });
  }
  cluster_.events.After(seconds, [this, life = life_, trainers] {
    if (trainers) {
      for (auto& [key, part] : parts_) {
        for (auto& [rank, trainer] : part.trainers) trainer.frozen = false;
      }
    }
    if (life == life_ && alive_) {
      frozen_ = false;
      absent_since_ = -1;
      while (!put_off_.empty() && AgentAwake()) {
        const std::function<void()> what = std::move(put_off_.front());
        put_off_.pop_front();
        what();
      }
    }
    for (auto& [key, part] : std::map<EpochKey, Part>(parts_)) cluster_.TryStep(key);
  });
}

void SimNode::BreakSession() {
  if (link_ != nullptr) link_->Break();
}

void SimNode::Partition(double seconds) {
  partitioned_until_ = std::max(partitioned_until_, cluster_.events.Now() + seconds);
  if (link_ == nullptr) return;
  link_->up.blocked_until = link_->down.blocked_until = partitioned_until_;
  if (seconds > kKeepaliveSeconds) {
    cluster_.events.After(kKeepaliveSeconds, [link = link_] { link->Break(); });
  }
}

// ---- trainers

Part* SimNode::RandomPart() {
  std::vector<Part*> parts;
  for (auto& [key, part] : parts_) {
    if (!part.trainers.empty() && !part.killing) parts.push_back(&part);
  }
  return parts.empty() ? nullptr : parts[cluster_.random.Below(static_cast<int>(parts.size()))];
}

void SimNode::KillTrainer() {
  Part* part = RandomPart();
  if (part != nullptr) Die(part->key(), part->trainers.begin()->first);
}

void SimNode::HangTrainer() {
  Part* part = RandomPart();
  if (part != nullptr) part->trainers.begin()->second.hung = true;
}

void SimNode::StopTrainer() {
  Part* part = RandomPart();
  if (part != nullptr) part->trainers.begin()->second.frozen = true;
}

void SimNode::Spawn(Part& part) {
  const EpochKey key = part.key();
  for (int i = 0; i < part.prepare.own_size(); ++i) {
    const int rank = part.prepare.own(i), device = part.prepare.devices(i);
    part.trainers[rank] = {.rank = rank, .device = device};
    cluster_.oracle.OnTrainer(number_, device, key.job, key.epoch);
    const double slow = cluster_.random.Chance(0.1) ? 5 : 0.5;
    cluster_.events.After(cluster_.random.Between(0.05, slow), [this, key, rank] {
      Part* mine = Find(key);
      if (mine == nullptr || !mine->trainers.contains(rank)) return;
      mine->trainers.at(rank).prepared = true;
      Agent([this, key] {
        const Part* ready = Find(key);
        if (ready != nullptr && ready->Prepared()) SayPrepared(*ready);
      });
    });
  }
  EpochWorld& epoch = cluster_.epochs[key];
  epoch.ranks = part.prepare.ranks();
  epoch.step = part.prepare.checkpoint().step();
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
    const bool abrupt = !dying->trainers.empty();
    while (!dying->trainers.empty()) Reap(*dying, dying->trainers.begin()->first);
    parts_.erase(key);
    if (abrupt) cluster_.LosePeer(key, this);
    if (!early) Agent([this, ended] { SayEnded(ended); });
  });
}

void SimNode::OnPeerLost(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing || part->trainers.empty()) return;
  Trainer& trainer = part->trainers.begin()->second;
  if (trainer.frozen || trainer.last_word || !trainer.running) return;
  trainer.last_word = Ended(key, v1::Finished::FAILED, -1, true);
  Agent([this, key] { TakeNote(key); });
}

void SimNode::OnWritten(const EpochKey& key, int64_t step) {
  Part* part = Find(key);
  if (part == nullptr) return;
  part->written.insert(step);
  if (part->written.size() > 2) part->written.erase(part->written.begin());
  Agent([this, key, step] {
    const Part* mine = Find(key);
    if (mine != nullptr && mine->written.contains(step)) SayWritten(*mine, step);
  });
}

// Rank 0 waits for the last commit; the others have nothing left to do.
void SimNode::OnFinalStep(const EpochKey& key, v1::Finished::Outcome outcome) {
  Part* part = Find(key);
  if (part == nullptr) return;
  part->outcome = outcome;
  if (part->HasRankZero()) return;
  cluster_.events.After(cluster_.random.Between(0, 0.5), [this, key] { Finish(key); });
}

void SimNode::Finish(const EpochKey& key) {
  Part* part = Find(key);
  if (part == nullptr || part->killing) return;
  for (auto& [rank, trainer] : part->trainers) {
    trainer.last_word = Ended(key, part->outcome, -1, false);
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

v1::EpochEnded SimNode::Ended(const EpochKey& key, v1::Finished::Outcome outcome, int rank,
                              bool echo) const {
  v1::EpochEnded ended;
  *ended.mutable_epoch() = controller::ToProto(key);
  ended.mutable_finished()->set_outcome(outcome);
  ended.mutable_finished()->set_message(echo ? "a connection broke" : "");
  ended.set_cause(outcome == v1::Finished::FAILED ? "trainer_died" : "");
  ended.set_rank(rank);
  ended.set_echo(echo);
  return ended;
}

}  // namespace strata::simulation
