// The agent's part of a node: its session with the controller.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "simulation/cluster.h"
#include "simulation/sim_node.h"

namespace strata::simulation {
namespace {

constexpr double kHangSeconds = 3.5;
constexpr double kPatientSeconds = 60;  // before the first step, and while the disk is busy
constexpr double kStopAnswerSeconds = 60;
constexpr size_t kMostPast = 16;

std::vector<int> OwnRanks(const Part& part) {
  return {part.prepare.own().begin(), part.prepare.own().end()};
}

}  // namespace

// ---- every second

void SimNode::Beat() {
  Agent([this] {
    v1::AgentMessage message;
    for (auto& [key, part] : parts_) {
      for (const auto& [rank, trainer] : part.trainers) {
        v1::Heartbeat::Rank& beat = *message.mutable_heartbeat()->add_ranks();
        *beat.mutable_epoch() = part.prepare.epoch();
        beat.set_rank(rank);
        beat.set_step(cluster_.epochs[key].step);
      }
    }
    message.mutable_heartbeat();
    if (welcomed_at_) Say(std::move(message));
    std::vector<EpochKey> keys;
    for (auto& [key, part] : parts_) keys.push_back(key);
    for (const EpochKey& key : keys) Watch(parts_.at(key));
  });
  cluster_.events.After(1, [this, life = life_] {
    if (life == life_) Beat();
  });
}

// The verdict on ranks that do not move.
void SimNode::Watch(Part& part) {
  const EpochWorld& epoch = cluster_.epochs[part.key()];
  if (part.killing || part.planning) return;
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  *hang.mutable_epoch() = part.prepare.epoch();
  hang.set_group("data");
  hang.set_instruction("reduce");
  const double now = cluster_.events.Now();
  for (const auto& [rank, trainer] : part.trainers) {
    const bool stuck = trainer.hung && trainer.running && now > epoch.moved_at + kHangSeconds;
    if (!trainer.Still() && !stuck) continue;
    hang.set_local(true);
    hang.set_rank(rank);
    Say(message);
    return EndPart(part, Ended(part.key(), v1::Finished::FAILED, rank, false, "hang"));
  }
  if (part.outcome != v1::Finished::OUTCOME_UNSPECIFIED || part.stopping) return;
  if (!part.started || !welcomed_at_) return;
  // Nobody elsewhere is missed before the controller could have told of its end.
  const double since = std::max({epoch.moved_at, part.missed_at, *welcomed_at_});
  const bool patient = !epoch.moved || epoch.step <= epoch.saved_step;
  if (now < since + (patient ? kPatientSeconds : kHangSeconds)) return;
  part.missed_at = now;  // again in a while
  for (int rank = 0; rank < part.prepare.ranks(); ++rank) {
    if (!part.trainers.contains(rank)) hang.add_missing(rank);
  }
  hang.set_rank(hang.missing_size() > 0 ? hang.missing(0) : -1);
  Say(message);
}

// ---- the session

void SimNode::Connect() {
  if (link_ != nullptr) return;
  const bool reachable =
      cluster_.controller.Reachable() && cluster_.events.Now() >= partitioned_until_;
  if (!reachable) return AgentAfter(cluster_.random.Between(0.1, 0.8), [this] { Connect(); });
  link_ = std::make_shared<Link>(cluster_.events, cluster_.random);
  welcomed_at_.reset();
  const Link* link = link_.get();
  link_->down.on_message = [this, link, life = life_](const v1::ControllerMessage& message) {
    if (life != life_) return;
    Agent([this, link, message] {
      if (link == link_.get()) OnMessage(message);
    });
  };
  link_->down.on_end = [this, link, life = life_] {
    if (life != life_) return;
    Agent([this, link] {
      if (link != link_.get()) return;
      link_ = nullptr;
      welcomed_at_.reset();
      AgentAfter(cluster_.random.Between(0.05, 0.5), [this] { Connect(); });
    });
  };
  cluster_.controller.Accept(link_);
  Register();
}

void SimNode::Register() {
  v1::AgentMessage message;
  v1::Register& hello = *message.mutable_register_();
  hello.set_node(name());
  hello.set_device("cpu");
  hello.set_devices(devices_);
  if (!domain_.empty()) (*hello.mutable_locality())["domain"] = domain_;
  for (const auto& [key, part] : parts_) {
    v1::HeldEpoch& held = *hello.add_held();
    *held.mutable_epoch() = part.prepare.epoch();
    for (const int rank : part.prepare.own()) held.add_ranks(rank);
    held.set_started(part.started);
    held.set_running(part.Running());
    held.set_step(cluster_.epochs[key].step);
  }
  for (const Past& past : past_) {  // its end follows
    v1::HeldEpoch& held = *hello.add_held();
    *held.mutable_epoch() = past.ended.epoch();
    held.mutable_ranks()->Add(past.ranks.begin(), past.ranks.end());
    held.set_started(true);
  }
  Say(std::move(message));
}

void SimNode::Say(v1::AgentMessage message) {
  if (link_ == nullptr || (!welcomed_at_ && !message.has_register_())) return;
  message.set_incarnation(incarnation_);
  const bool twice = !message.has_register_() && cluster_.random.Chance(0.01);
  if (twice) link_->SendUp(message);
  link_->SendUp(std::move(message));
}

void SimNode::OnMessage(const v1::ControllerMessage& message) {
  if (message.controller_term() < highest_term_) return BreakSession();
  highest_term_ = message.controller_term();
  switch (message.message_case()) {
    case v1::ControllerMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::ControllerMessage::kPrepare:
      return OnPrepare(message.prepare());
    case v1::ControllerMessage::kStart:
      return OnStart(message.start());
    case v1::ControllerMessage::kStop:
      return OnStop(message.stop());
    case v1::ControllerMessage::kStopAfter:
      return OnStopAfter(message.stop_after());
    case v1::ControllerMessage::kWriteManifest:
      return OnWriteManifest(message.write_manifest());
    case v1::ControllerMessage::kCommit:
      return OnCommitAnswer(message.commit());
    case v1::ControllerMessage::kDismiss:
      return KillAgent(0.5);  // its supervisor starts another one
    default:
      return;
  }
}

void SimNode::OnWelcome(const v1::Welcome& welcome) {
  welcomed_at_ = cluster_.events.Now();
  std::set<EpochKey> keep;
  for (const v1::JobEpoch& epoch : welcome.keep()) keep.insert(controller::ToKey(epoch));
  // What ranks wrote comes before their end, which says that there will be no more of it.
  for (const Past& past : past_) {
    for (const int64_t step : past.written) {
      SayWritten(controller::ToKey(past.ended.epoch()), past.ranks, step);
    }
    SayEnded(past.ended);
  }
  std::vector<EpochKey> keys;
  for (const auto& [key, part] : parts_) keys.push_back(key);
  for (const EpochKey& key : keys) {
    Part& part = parts_.at(key);
    if (keep.contains(key)) {
      Repeat(part);
    } else if (cluster_.options.bug != PlantedBug::kIgnoresStop) {
      EndPart(part, Ended(key, v1::Finished::FAILED, -1, false, "user"));
    }
  }
}

void SimNode::Repeat(Part& part) {
  if (part.Prepared() && !part.killing) SayPrepared(part);
  if (part.Running() && !part.killing) SayRunning(part);
  for (const int64_t step : part.written) SayWritten(part.key(), OwnRanks(part), step);
  if (part.asked.has_value() && !part.killing) SayCommit(part);
}

void SimNode::OnPrepare(const v1::PrepareEpoch& prepare) {
  const EpochKey key = controller::ToKey(prepare.epoch());
  if (const Part* part = Find(key); part != nullptr) {
    if (part->Prepared() && !part->killing) SayPrepared(*part);
    if (part->Running() && !part->killing) SayRunning(*part);
    return;
  }
  if (FindPast(key) != nullptr) return SayGone(key);
  int64_t& highest = highest_epoch_[key.job];
  if (key.epoch <= highest) return SayProblem(key, "an older epoch");
  if (cluster_.random.Chance(cluster_.options.only_harmless || cluster_.options.calm ? 0 : 0.01)) {
    return SayProblem(key, "no room on the disk");
  }
  highest = key.epoch;
  for (auto& [other, old] : parts_) {
    const bool replaced = other.job == key.job && cluster_.options.bug != PlantedBug::kIgnoresStop;
    if (replaced) EndPart(old, Ended(other, v1::Finished::FAILED, -1, false, "user"));
  }
  parts_[key].prepare = prepare;
  AgentAfter(cluster_.random.Between(0.01, 0.3), [this, key] {
    Part* planned = Find(key);
    if (planned != nullptr && planned->planning && !planned->killing) FinishPlan(*planned);
  });
}

// Rank 0's process finds out what lies on the disk.
void SimNode::FinishPlan(Part& part) {
  const EpochKey key = part.key();
  if (!part.HasRankZero()) return Spawn(part);
  Storage& storage = cluster_.storages[key.job];
  const std::string beside = storage.Recover(part.prepare);
  // One of a start that is over may find what later ones have written.
  if (!beside.empty() && cluster_.oracle.durable().at(key.job).epoch() == key.epoch) {
    cluster_.oracle.Violate(absl::StrCat(key.job, " starts anew beside ", beside));
  }
  const auto problem = storage.Check(part.prepare, /*planning=*/true, cluster_.events.Now());
  if (!problem.has_value() && beside.empty()) return Spawn(part);
  v1::AgentMessage message;
  *message.mutable_prepared()->mutable_epoch() = part.prepare.epoch();
  message.mutable_prepared()->set_problem(problem.has_value() ? problem->what() : beside);
  if (problem.has_value()) *message.mutable_prepared()->mutable_checkpoint_problem() = *problem;
  Say(std::move(message));
  EndPart(part, Ended(key, v1::Finished::FAILED, -1, false, "start_failed"));
}

void SimNode::OnStart(const v1::StartEpoch& start) {
  const EpochKey key = controller::ToKey(start.epoch());
  Part* part = Find(key);
  if (part == nullptr) return SayGone(key);
  if (!part->Prepared() || part->killing) return;
  if (start.addresses_size() != part->prepare.ranks()) {
    cluster_.oracle.Violate(absl::StrCat(key.job, " was started without all addresses"));
  }
  part->started = true;
  part->missed_at = cluster_.events.Now();
  AgentAfter(cluster_.random.Between(0.001, 0.05), [this, key] {
    cluster_.events.After(cluster_.random.Between(0.05, 1), [this, key] { Load(key); });
  });
}

void SimNode::OnStop(const v1::StopEpoch& stop) {
  const EpochKey key = controller::ToKey(stop.epoch());
  Part* part = Find(key);
  if (part == nullptr) return SayGone(key);
  if (part->killing || cluster_.options.bug == PlantedBug::kIgnoresStop) return;
  if (!stop.checkpoint() || !part->Running()) {
    return EndPart(*part, Ended(key, v1::Finished::FAILED, -1, false, "user"));
  }
  part->stopping = true;
  part->asked_for_step = part->last_step < 0;
  if (part->stop_after < 0) SayStopping(key);
}

void SimNode::SayStopping(const EpochKey& key) {
  const Part& part = *Find(key);
  const EpochWorld& epoch = cluster_.epochs[key];
  const int64_t step = epoch.step + (epoch.in_step ? 1 : 0);
  if (part.prepare.own_size() == part.prepare.ranks()) {
    v1::StopEpochAfter after;
    *after.mutable_epoch() = part.prepare.epoch();
    after.set_step(step);
    return OnStopAfter(after);
  }
  v1::AgentMessage message;
  *message.mutable_stopping()->mutable_epoch() = part.prepare.epoch();
  message.mutable_stopping()->set_step(step);
  Say(std::move(message));
  AgentAfter(kStopAnswerSeconds, [this, key] {
    Part* waiting = Find(key);
    if (waiting == nullptr || waiting->stop_after >= 0) return;
    EndPart(*waiting, Ended(key, v1::Finished::FAILED, -1, false, "user"));
  });
}

void SimNode::OnStopAfter(const v1::StopEpochAfter& stop) {
  const EpochKey key = controller::ToKey(stop.epoch());
  Part* part = Find(key);
  if (part == nullptr || part->killing || part->stop_after >= 0) return;
  part->stop_after = part->last_step = stop.step();
  part->asked_for_step = false;
  ObeyLastStep(key);
}

void SimNode::OnWriteManifest(const v1::WriteManifest& manifest) {
  const EpochKey key = controller::ToKey(manifest.epoch());
  const int64_t step = manifest.step();
  // Not before the steps up to it are in the job's folder.
  AgentAfter(cluster_.random.Between(0.001, 0.05), [this, key, step] {
    Part* part = Find(key);
    if (part == nullptr || part->killing || !part->announced.contains(step)) return;
    part->complete.insert(step);
    AdvanceCommits(key);
  });
}

void SimNode::OnCommitAnswer(const v1::CommitAnswer& answer) {
  const EpochKey key = controller::ToKey(answer.epoch());
  Part* part = Find(key);
  if (part == nullptr || part->killing || !part->trainers.contains(0)) return;
  if (cluster_.options.bug == PlantedBug::kSwallowsAnswers && cluster_.random.Chance(0.1)) {
    part->asked.reset();
    return;
  }
  part->answer = answer;
  AdvanceCommits(key);
}

// ---- what it says

void SimNode::SayPrepared(const Part& part) {
  v1::AgentMessage message;
  v1::EpochPrepared& prepared = *message.mutable_prepared();
  *prepared.mutable_epoch() = part.prepare.epoch();
  for (const auto& [rank, trainer] : part.trainers) {
    v1::EpochPrepared::Rank& answer = *prepared.add_ranks();
    answer.set_rank(rank);
    answer.mutable_prepared()->set_address(absl::StrCat(name(), "-", rank));
    answer.mutable_prepared()->set_plan_digest("plan");
  }
  Say(std::move(message));
}

void SimNode::SayRunning(const Part& part) {
  v1::AgentMessage message;
  *message.mutable_running()->mutable_epoch() = part.prepare.epoch();
  Say(std::move(message));
}

void SimNode::SayProblem(const EpochKey& key, const std::string& problem) {
  v1::AgentMessage message;
  *message.mutable_prepared()->mutable_epoch() = controller::ToProto(key);
  message.mutable_prepared()->set_problem(problem);
  Say(std::move(message));
}

void SimNode::SayWritten(const EpochKey& key, const std::vector<int>& ranks, int64_t step) {
  v1::AgentMessage message;
  *message.mutable_written()->mutable_epoch() = controller::ToProto(key);
  message.mutable_written()->set_step(step);
  for (const int rank : ranks) {
    (*message.mutable_written()->mutable_fragments())[rank] = absl::StrCat("f", rank);
  }
  Say(message);
  if (cluster_.options.bug == PlantedBug::kInventsManifests && ranks.front() == 0) {
    message.mutable_written()->set_step(step + 1);
    if (Part* part = Find(key); part != nullptr && !part->asked) WriteManifest(key, step + 1);
  }
}

void SimNode::SayCommit(const Part& part) {
  v1::AgentMessage message;
  *message.mutable_commit()->mutable_epoch() = part.prepare.epoch();
  *message.mutable_commit()->mutable_checkpoint() = *part.asked;
  Say(std::move(message));
}

void SimNode::SayEnded(const v1::EpochEnded& ended) {
  v1::AgentMessage message;
  *message.mutable_ended() = ended;
  Say(std::move(message));
}

void SimNode::Remember(const Part& part, const v1::EpochEnded& ended) {
  past_.push_back({part.written, OwnRanks(part), ended});
  if (past_.size() > kMostPast) past_.pop_front();
}

const Past* SimNode::FindPast(const EpochKey& key) const {
  const auto found = std::find_if(past_.begin(), past_.end(), [&](const Past& past) {
    return controller::ToKey(past.ended.epoch()) == key;
  });
  return found == past_.end() ? nullptr : &*found;
}

// What is asked of an epoch that is not here any more has no trainers here.
void SimNode::SayGone(const EpochKey& key) {
  const Past* past = FindPast(key);
  SayEnded(past != nullptr ? past->ended : Ended(key, v1::Finished::FAILED, -1, false));
}

}  // namespace strata::simulation
