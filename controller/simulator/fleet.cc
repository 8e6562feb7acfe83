#include "controller/simulator/fleet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

constexpr double kZombieSeconds = 120;
constexpr size_t kMostPast = 16;

v1::EpochEnded EndedOf(const v1::JobEpoch& epoch, v1::Finished::Outcome outcome,
                       const std::string& cause, int rank) {
  v1::EpochEnded ended;
  *ended.mutable_epoch() = epoch;
  ended.mutable_finished()->set_outcome(outcome);
  if (rank >= 0) ended.mutable_finished()->set_message(absl::StrCat("rank ", rank, " ended"));
  ended.set_cause(cause);
  ended.set_rank(rank);
  return ended;
}

}  // namespace

Part* SimNode::Find(const EpochRun* run) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.run == run; });
  return found == parts.end() ? nullptr : &*found;
}

// ---- processes and connections

void Fleet::Begin() {
  const topology::Description& map = world_.options.cluster;
  for (const topology::Node& described : map.nodes) {
    SimNode& node = nodes_.emplace_back();
    node.index = static_cast<int>(nodes_.size()) - 1;
    node.name = described.name;
    node.devices = described.devices;
    node.device = described.kind;
    node.host_memory_bytes = int64_t{64} * (nodes_.size() << 30);
    for (size_t level = 0; level < map.levels.size(); ++level) {
      if (!described.at[level].empty()) node.locality[map.levels[level]] = described.at[level];
    }
    by_name_[absl::StrCat("nodes/", node.name)] = node.index;
  }
  world_.invariants.OnFleet(nodes_);
  for (SimNode& node : nodes_) Boot(node);
}

void Fleet::Boot(SimNode& node) {
  ++node.life;
  node.alive = node.reachable = true;
  node.incarnation = world_.latencies.Next() | 1;
  node.past.clear();
  Connect(node);
}

void Fleet::OnControllerStart() {
  for (SimNode& node : nodes_) {
    node.session = 0;
    if (!node.alive || !node.reachable) continue;
    const double delay = world_.latencies.Between(0.1, 1) * world_.options.latencies.reconnect;
    world_.events.After(delay, [this, &node, life = node.life] {
      if (life == node.life) Connect(node);
    });
  }
}

void Fleet::Connect(SimNode& node) {
  if (!node.alive || !node.reachable || node.session != 0) return;
  const bool returns = world_.events.Now() > 0;
  if (returns && world_.options.bug == PlantedBug::kForgetsReturns) return;
  node.session = world_.host.Open();
  if (node.session != 0) Register(node);
}

// What the controller is told of where a node stands; wrong with two of the planted bugs.
std::string Fleet::Told(int node, const std::string& level, const std::string& value) const {
  const bool lies = world_.options.bug == PlantedBug::kMisplacesNodes ||
                    (world_.options.bug == PlantedBug::kMisplacesZones && level == "zone");
  if (!lies) return value;
  const int count = static_cast<int>(nodes_.size());
  return nodes_[(node * 7) % count].locality.at(level);
}

void Fleet::Register(SimNode& node) {
  v1::AgentMessage message;
  v1::Register& hello = *message.mutable_register_();
  hello.set_node(node.name);
  hello.set_device(node.device);
  hello.set_devices(node.devices);
  hello.set_host_memory_bytes(node.host_memory_bytes);
  for (const auto& [level, value] : node.locality) {
    (*hello.mutable_locality())[level] = Told(node.index, level, value);
  }
  for (const Part& part : node.parts) {
    v1::HeldEpoch& held = *hello.add_held();
    *held.mutable_epoch() = part.run->epoch;
    held.mutable_ranks()->Add(part.ranks.begin(), part.ranks.end());
    held.set_started(part.state >= Part::State::kLoading);
    held.set_running(part.state == Part::State::kRunning);
    held.set_step(world_.training.StepOf(*part.run));
  }
  for (const auto& [at, ended] : node.past) {  // its end follows
    v1::HeldEpoch& held = *hello.add_held();
    *held.mutable_epoch() = ended.epoch();
    held.set_started(true);
  }
  Say(node, message);
  world_.host.Alert();
}

void Fleet::LoseSession(SimNode& node) {
  if (node.session == 0) return;
  world_.host.Silence(node.session);
  world_.events.After(world_.options.latencies.keepalive,
                      [this, session = node.session] { world_.host.EndSession(session); });
  node.session = 0;
  world_.host.Alert();
}

void Fleet::Leave(SimNode& node, const std::string& cause) {
  while (!node.parts.empty()) {
    EndPart(node, *node.parts.back().run, v1::Finished::INTERRUPTED, cause, -1);
  }
  if (node.session != 0) world_.host.EndSession(node.session);
  node.session = 0;
  node.alive = false;
  ++node.life;
}

void Fleet::PowerOff(SimNode& node) {
  while (!node.parts.empty()) {
    EpochRun& run = *node.parts.back().run;
    world_.training.Miss(run, node.parts.back().ranks);
    Vanish(node, run);
  }
  LoseSession(node);
  node.alive = false;
  ++node.life;
}

void Fleet::Isolate(SimNode& node, double seconds) {
  for (const Part& part : node.parts) world_.training.Miss(*part.run, part.ranks);
  LoseSession(node);
  node.reachable = false;
  const uint64_t life = ++node.life;
  world_.events.After(world_.options.latencies.orphan, [this, &node, life] {
    while (life == node.life && !node.parts.empty()) {
      EndPart(node, *node.parts.back().run, v1::Finished::INTERRUPTED, "node_lost", -1);
    }
  });
  world_.events.After(seconds, [this, &node, life] {
    if (life != node.life) return;
    ++node.life;
    node.reachable = true;
    Connect(node);
  });
}

// ---- what it says

void Fleet::Say(SimNode& node, v1::AgentMessage& message) {
  if (!Hears(node)) return;
  message.set_incarnation(node.incarnation);
  if (world_.options.on_said) world_.options.on_said(node.name, message);
  world_.host.Say(node.session, message);
}

void Fleet::SayPrepared(const EpochRun& run, const std::vector<int>& nodes) {
  for (const int index : nodes) {
    SimNode& node = nodes_[index];
    Part* part = node.Find(&run);
    if (part == nullptr || part->state == Part::State::kEnding) continue;
    if (part->state == Part::State::kPreparing) part->state = Part::State::kPrepared;
    v1::AgentMessage message;
    v1::EpochPrepared& prepared = *message.mutable_prepared();
    *prepared.mutable_epoch() = run.epoch;
    for (const int rank : part->ranks) {
      v1::EpochPrepared::Rank& answer = *prepared.add_ranks();
      answer.set_rank(rank);
      answer.mutable_prepared()->set_address(absl::StrCat(node.name, ":", rank));
      answer.mutable_prepared()->set_plan_digest("plan");
    }
    Say(node, message);
  }
}

void Fleet::SayRunning(const EpochRun& run) {
  v1::AgentMessage message;
  *message.mutable_running()->mutable_epoch() = run.epoch;
  for (const int index : run.nodes) {
    SimNode& node = nodes_[index];
    Part& part = *node.Find(&run);
    if (part.state == Part::State::kEnding) continue;
    part.state = Part::State::kRunning;
    Say(node, message);
  }
}

// A checkpoint: every agent tells what its ranks have written or, where that would be too much to
// simulate, rank 0's asks for the commit at once, as it does when it has all fragments.
void Fleet::SayWritten(const EpochRun& run, int64_t step) {
  v1::AgentMessage progress;
  *progress.mutable_progress()->mutable_epoch() = run.epoch;
  progress.mutable_progress()->mutable_progress()->mutable_step()->set_step(step);
  for (const int index : run.nodes) {
    SimNode& node = nodes_[index];
    const Part& part = *node.Find(&run);
    const bool first = std::find(part.ranks.begin(), part.ranks.end(), 0) != part.ranks.end();
    if (first) Say(node, progress);
    if (world_.options.all_fragments) SayFragments(node, part, step);
  }
  if (!world_.options.all_fragments) SayCommit(run, run.epoch.epoch(), step);
}

void Fleet::SayFragments(SimNode& node, const Part& part, int64_t step) {
  const std::string fragment(1, 'f');  // assigning a literal is a false warning of GCC 12
  v1::AgentMessage message;
  *message.mutable_written()->mutable_epoch() = part.run->epoch;
  message.mutable_written()->set_step(step);
  for (const int rank : part.ranks)
    message.mutable_written()->mutable_fragments()->insert({rank, fragment});
  Say(node, message);
}

void Fleet::SayCommit(const EpochRun& run, int64_t epoch, int64_t step) {
  v1::AgentMessage message;
  v1::CommitRequest& commit = *message.mutable_commit();
  *commit.mutable_epoch() = run.epoch;
  commit.mutable_epoch()->set_epoch(epoch);
  commit.mutable_checkpoint()->set_step(step);
  commit.mutable_checkpoint()->set_manifest_digest(absl::StrCat(run.number, ".", step));
  commit.mutable_checkpoint()->set_path("/simulated/checkpoint");
  for (const int index : run.nodes) {
    SimNode& node = nodes_[index];
    const Part& part = *node.Find(&run);
    const bool first = std::find(part.ranks.begin(), part.ranks.end(), 0) != part.ranks.end();
    if (first) return Say(node, message);
  }
}

void Fleet::SayHang(SimNode& node, const EpochRun& run, int rank, const std::vector<int>& missing,
                    double seconds) {
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  *hang.mutable_epoch() = run.epoch;
  hang.set_group("data");
  hang.set_instruction("reduce");
  hang.set_rank(rank);
  hang.set_seconds(seconds);
  hang.set_local(missing.empty());
  hang.mutable_missing()->Add(missing.begin(), missing.end());
  Say(node, message);
  world_.host.Alert();
}

void Fleet::SayEnded(SimNode& node, const v1::EpochEnded& ended) {
  v1::AgentMessage message;
  *message.mutable_ended() = ended;
  Say(node, message);
}

// What is asked of an epoch that is not here any more has no trainers here.
void Fleet::SayGone(SimNode& node, const v1::JobEpoch& epoch) {
  SayEnded(node, EndedOf(epoch, v1::Finished::INTERRUPTED, "", -1));
}

void Fleet::Vanish(SimNode& node, EpochRun& run) {
  const Part& part = *node.Find(&run);
  for (const int device : part.devices) world_.invariants.OnFree(node.index, device, run);
  const int ranks = static_cast<int>(part.ranks.size());
  std::erase_if(node.parts, [&](const Part& other) { return other.run == &run; });
  world_.training.RemovePart(run, node.index, ranks);  // the run may be over
}

void Fleet::EndPart(SimNode& node, EpochRun& run, v1::Finished::Outcome outcome,
                    const std::string& cause, int rank) {
  const v1::EpochEnded ended = EndedOf(run.epoch, outcome, cause, rank);
  if (world_.options.bug == PlantedBug::kCommitsForOthers) {
    world_.events.After(kZombieSeconds,
                        [this, &node, epoch = run.epoch, step = world_.training.StepOf(run) + 1] {
                          CommitForOthers(node, epoch, step);
                        });
  }
  Vanish(node, run);
  node.past.push_back({world_.events.Now(), ended});
  if (node.past.size() > kMostPast) node.past.erase(node.past.begin());
  SayEnded(node, ended);
  world_.host.Alert();
}

// A zombie of an epoch that is over asks to commit what it has, as if it were of the present one.
void Fleet::CommitForOthers(SimNode& node, const v1::JobEpoch& epoch, int64_t step) {
  v1::AgentMessage message;
  v1::CommitRequest& commit = *message.mutable_commit();
  *commit.mutable_epoch() = epoch;
  commit.mutable_epoch()->set_epoch(epoch.epoch() + 1);
  commit.mutable_checkpoint()->set_step(step);
  commit.mutable_checkpoint()->set_manifest_digest("zombie");
  commit.mutable_checkpoint()->set_path("/simulated/checkpoint");
  Say(node, message);
}

void Fleet::EndAll(EpochRun& run, v1::Finished::Outcome outcome) {
  const std::vector<int> nodes = run.nodes;
  for (const int index : nodes) EndPart(nodes_[index], run, outcome, "", -1);
}

}  // namespace strata::simulator
