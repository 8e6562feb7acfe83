// The machine: processes, and what breaks.
#include "simulation/sim_node.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "simulation/cluster.h"

namespace strata::simulation {
namespace {

constexpr double kLeaseSeconds = 30;
constexpr double kKeepaliveSeconds = 15;

}  // namespace

SimNode::SimNode(Cluster& cluster, int number, int devices, const std::string& domain)
    : cluster_(cluster), number_(number), devices_(devices), domain_(domain) {}

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
  if (!cluster_.keeps_ends_on_disk) past_.clear();
  highest_epoch_.clear();
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
    int64_t& highest = highest_epoch_[key.job];
    highest = std::max(highest, key.epoch);
    if (part.killing) continue;  // the kernel is at it
    part.stopping = false;
    part.stop_after = -1;
    if (static_cast<int>(part.trainers.size()) != part.prepare.own_size()) {
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
  welcomed_at_.reset();
  std::erase_if(parts_, [](const auto& entry) { return entry.second.planning; });
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
      if (!trainer.Still()) gone.push_back({key, rank});
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
  cluster_.events.After(
      seconds, [this, life = life_, seconds, trainers] { Wake(life, trainers ? seconds : 0); });
}

// `slept`: the trainers did, for so long; then they may find their lease over before they hear of
// their agent.
void SimNode::Wake(uint64_t life, double slept) {
  if (slept > 0) {
    for (auto& [key, part] : parts_) {
      for (auto& [rank, trainer] : part.trainers) trainer.frozen = false;
    }
    if (slept > kLeaseSeconds && cluster_.random.Chance(0.5)) EndOwnLease();
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
  std::vector<EpochKey> keys;
  for (const auto& [key, part] : parts_) keys.push_back(key);
  for (const EpochKey& key : keys) {
    AdvanceCommits(key);
    ObeyLastStep(key);
    FinishIfDone(key);
    cluster_.TryStep(key);
  }
}

void SimNode::BreakSession() {
  if (link_ != nullptr) link_->Break();
}

void SimNode::Partition(double seconds, bool up, bool down) {
  const double until = cluster_.events.Now() + seconds;
  partitioned_until_ = std::max(partitioned_until_, until);
  if (link_ == nullptr) return;
  if (up) link_->up.blocked_until = std::max(link_->up.blocked_until, until);
  if (down) link_->down.blocked_until = std::max(link_->down.blocked_until, until);
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
  if (part == nullptr) return;
  const int place = cluster_.random.Below(static_cast<int>(part->trainers.size()));
  Die(part->key(), std::next(part->trainers.begin(), place)->first);
}

void SimNode::HangTrainer() {
  Part* part = RandomPart();
  if (part != nullptr) part->trainers.rbegin()->second.hung = true;
}

void SimNode::StopTrainer() {
  Part* part = RandomPart();
  if (part != nullptr) part->trainers.begin()->second.stopped = true;
}

}  // namespace strata::simulation
