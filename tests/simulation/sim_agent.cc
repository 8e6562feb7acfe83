// The agent's part of a node: its session with the controller.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/sim_node.h"

namespace strata::simulation {
namespace {

constexpr double kHangSeconds = 3.5;
constexpr double kFirstStepSeconds = 60;
constexpr double kStopAnswerSeconds = 5;
constexpr size_t kMostEnds = 16;

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
    if (welcome_) Say(std::move(message));
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
  if (part.killing) return;
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  *hang.mutable_epoch() = part.prepare.epoch();
  hang.set_group("data");
  hang.set_instruction("reduce");
  const double now = cluster_.events.Now();
  const double since = std::max(epoch.moved_at, part.moved_at);
  for (const auto& [rank, trainer] : part.trainers) {
    if (!trainer.frozen && !(trainer.hung && now > since + kHangSeconds)) continue;
    hang.set_local(true);
    hang.set_rank(rank);
    Say(message);
    return EndPart(part, Ended(part.key(), v1::Finished::FAILED, rank, false));
  }
  if (part.outcome != v1::Finished::OUTCOME_UNSPECIFIED || part.stopping) return;
  if (!part.started || now < since + (epoch.moved ? kHangSeconds : kFirstStepSeconds)) return;
  part.moved_at = now;  // again in a while
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
  welcome_ = false;
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
      welcome_ = false;
      AgentAfter(cluster_.random.Between(0.05, 0.5), [this] { Connect(); });
    });
  };
  cluster_.controller.Accept(link_);
  v1::AgentMessage message;
  v1::Register& hello = *message.mutable_register_();
  hello.set_node(name());
  hello.set_device("cpu");
  hello.set_devices(devices_);
  for (const auto& [key, part] : parts_) {
    v1::HeldEpoch& held = *hello.add_held();
    *held.mutable_epoch() = part.prepare.epoch();
    for (const int rank : part.prepare.own()) held.add_ranks(rank);
    held.set_started(part.started);
    held.set_running(part.Running());
    held.set_step(cluster_.epochs[key].step);
  }
  Say(std::move(message));
}

void SimNode::Say(v1::AgentMessage message) {
  if (link_ == nullptr) return;
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
  welcome_ = true;
  std::set<EpochKey> keep;
  for (const v1::JobEpoch& epoch : welcome.keep()) keep.insert(controller::ToKey(epoch));
  const auto ended = ended_lately_;
  for (const v1::EpochEnded& end : ended) {
    v1::AgentMessage message;
    *message.mutable_ended() = end;
    Say(std::move(message));
  }
  std::vector<EpochKey> keys;
  for (const auto& [key, part] : parts_) keys.push_back(key);
  for (const EpochKey& key : keys) {
    Part& part = parts_.at(key);
    if (keep.contains(key)) {
      Repeat(part);
    } else if (cluster_.options.bug != PlantedBug::kIgnoresStop) {
      EndPart(part, Ended(key, v1::Finished::INTERRUPTED, -1, false));
    }
  }
}

void SimNode::Repeat(Part& part) {
  if (part.killing) return;
  if (part.Prepared()) SayPrepared(part);
  if (part.Running()) SayRunning(part);
  for (const int64_t step : part.written) SayWritten(part, step);
  if (part.asked.has_value()) SayCommit(part);
}

void SimNode::OnPrepare(const v1::PrepareEpoch& prepare) {
  const EpochKey key = controller::ToKey(prepare.epoch());
  int64_t& highest = highest_epoch_[key.job];
  if (key.epoch < highest) {
    return SayEnded(Ended(key, v1::Finished::INTERRUPTED, -1, false));
  }
  highest = key.epoch;
  if (const Part* part = Find(key); part != nullptr) {
    if (part->Prepared() && !part->killing) SayPrepared(*part);
    return;
  }
  if (cluster_.random.Chance(cluster_.options.only_harmless ? 0 : 0.01)) {
    v1::AgentMessage message;
    *message.mutable_prepared()->mutable_epoch() = prepare.epoch();
    message.mutable_prepared()->set_problem("no room on the disk");
    return Say(std::move(message));
  }
  Part& part = parts_[key];
  part.prepare = prepare;
  Spawn(part);
}

void SimNode::OnStart(const v1::StartEpoch& start) {
  const EpochKey key = controller::ToKey(start.epoch());
  Part* part = Find(key);
  if (part == nullptr || part->started || !part->Prepared()) return;
  if (start.addresses_size() != part->prepare.ranks()) {
    cluster_.oracle.Violate(absl::StrCat(key.job, " was started without all addresses"));
  }
  part->started = true;
  part->moved_at = cluster_.events.Now();
  const double loading = cluster_.random.Between(0.05, 1);
  cluster_.events.After(loading, [this, key] {
    Part* mine = Find(key);
    if (mine == nullptr) return;
    for (auto& [rank, trainer] : mine->trainers) trainer.running = true;
    Agent([this, key] {
      const Part* ready = Find(key);
      if (ready != nullptr && ready->Running()) SayRunning(*ready);
    });
    cluster_.TryStep(key);
  });
}

void SimNode::OnStop(const v1::StopEpoch& stop) {
  const EpochKey key = controller::ToKey(stop.epoch());
  Part* part = Find(key);
  if (part == nullptr) return SayEnded(Ended(key, v1::Finished::INTERRUPTED, -1, false));
  if (cluster_.options.bug == PlantedBug::kIgnoresStop) return;
  if (!stop.checkpoint() || !part->Running()) {
    return EndPart(*part, Ended(key, v1::Finished::INTERRUPTED, -1, false));
  }
  if (part->killing || part->stop_after >= 0) return;
  part->stopping = true;
  const EpochWorld& epoch = cluster_.epochs[key];
  const int64_t step = epoch.step + (epoch.in_step ? 1 : 0);
  if (part->prepare.own_size() == part->prepare.ranks()) {
    v1::StopEpochAfter after;
    *after.mutable_epoch() = stop.epoch();
    after.set_step(step);
    return OnStopAfter(after);
  }
  v1::AgentMessage message;
  *message.mutable_stopping()->mutable_epoch() = stop.epoch();
  message.mutable_stopping()->set_step(step);
  Say(std::move(message));
  AgentAfter(kStopAnswerSeconds, [this, key] {
    Part* waiting = Find(key);
    if (waiting == nullptr || waiting->stop_after >= 0) return;
    EndPart(*waiting, Ended(key, v1::Finished::INTERRUPTED, -1, false));
  });
}

void SimNode::OnStopAfter(const v1::StopEpochAfter& stop) {
  const EpochKey key = controller::ToKey(stop.epoch());
  Part* part = Find(key);
  if (part == nullptr || part->killing || part->stop_after >= 0) return;
  const int64_t step = cluster_.epochs[key].step;
  if (stop.step() < step) {
    cluster_.oracle.Violate(
        absl::StrCat(key.job, " is to stop after step ", stop.step(), " and has finished ", step));
  }
  part->stop_after = stop.step();
  if (step < stop.step()) return cluster_.TryStep(key);
  if (part->outcome == v1::Finished::OUTCOME_UNSPECIFIED) {  // it is there already
    if (step > part->committed && step > part->prepare.checkpoint().step()) OnWritten(key, step);
    OnFinalStep(key, v1::Finished::INTERRUPTED);
    if (part->HasRankZero() && !part->written.contains(step)) Finish(key);
  }
}

void SimNode::OnWriteManifest(const v1::WriteManifest& manifest) {
  const EpochKey key = controller::ToKey(manifest.epoch());
  const int64_t step = manifest.step();
  AgentAfter(cluster_.random.Between(0.002, 0.1), [this, key, step] {
    Part* part = Find(key);
    if (part == nullptr || part->killing || !part->trainers.contains(0)) return;
    if (part->trainers.at(0).frozen || step <= part->committed) return;
    if (!part->asked.has_value() || part->asked->step() != step) {
      part->asked.emplace();
      part->asked->set_epoch(key.epoch);
      part->asked->set_step(step);
      part->asked->set_path(absl::StrCat("/", key.job, "/.epoch-", key.epoch, "/step-", step));
      part->asked->set_manifest_digest(absl::StrCat(key.job, "-", key.epoch, "-", step));
      // All ranks have finished this step, or nobody could have written it.
      if (step <= cluster_.epochs[key].step) {
        cluster_.oracle.OnManifest(key.epoch, step, part->asked->manifest_digest());
      }
    }
    SayCommit(*part);
  });
}

void SimNode::OnCommitAnswer(const v1::CommitAnswer& answer) {
  const EpochKey key = controller::ToKey(answer.epoch());
  Part* part = Find(key);
  if (part == nullptr || !part->asked.has_value() || part->asked->step() != answer.step()) return;
  part->asked.reset();
  if (answer.accepted()) part->committed = answer.step();
  while (!part->written.empty() && *part->written.begin() <= answer.step()) {
    part->written.erase(part->written.begin());
  }
  const int64_t last =
      part->stop_after >= 0 ? part->stop_after : part->prepare.spec().train().steps();
  if (answer.accepted() && answer.step() >= last) Finish(key);
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

void SimNode::SayWritten(const Part& part, int64_t step) {
  v1::AgentMessage message;
  *message.mutable_written()->mutable_epoch() = part.prepare.epoch();
  message.mutable_written()->set_step(step);
  for (const int rank : part.prepare.own()) {
    (*message.mutable_written()->mutable_fragments())[rank] = absl::StrCat("f", rank);
  }
  Say(message);
  if (cluster_.options.bug == PlantedBug::kInventsManifests && part.HasRankZero()) {
    v1::WriteManifest early;
    *early.mutable_epoch() = part.prepare.epoch();
    early.set_step(step + 1);
    OnWriteManifest(early);
  }
}

void SimNode::SayCommit(const Part& part) {
  v1::AgentMessage message;
  *message.mutable_commit()->mutable_epoch() = part.prepare.epoch();
  *message.mutable_commit()->mutable_checkpoint() = *part.asked;
  Say(std::move(message));
}

void SimNode::SayEnded(const v1::EpochEnded& ended) {
  ended_lately_.push_back(ended);
  if (ended_lately_.size() > kMostEnds) ended_lately_.pop_front();
  v1::AgentMessage message;
  *message.mutable_ended() = ended;
  Say(std::move(message));
}

}  // namespace strata::simulation
