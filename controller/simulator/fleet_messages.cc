// The half of the fleet that hears.
#include <algorithm>
#include <utility>

#include "controller/simulator/fleet.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

constexpr double kTellsLately = 5;  // ends that may have been lost with the session before

}  // namespace

// What arrives together is answered together: one event for all nodes of an epoch.
struct Fleet::Batch {
  struct Of {
    v1::JobEpoch epoch;
    std::vector<int> nodes;
    void Add(const v1::JobEpoch& of, int node) {
      epoch = of;
      nodes.push_back(node);
    }
  };
  std::map<int64_t, Of> prepared, started, stopped;  // by the epoch's number
};

void Fleet::OnMessages(const std::vector<controller::Outgoing>& messages) {
  Batch batch;
  for (const controller::Outgoing& outgoing : messages) {
    const auto found = by_name_.find(outgoing.node);
    if (found == by_name_.end()) continue;
    SimNode& node = nodes_[found->second];
    if (Hears(node) && node.session == outgoing.session) Handle(node, *outgoing.message, batch);
  }
  const Latencies& seconds = world_.options.latencies;
  const auto jittered = [&](double mean) {
    return mean * world_.latencies.Between(1 - seconds.jitter, 1 + seconds.jitter);
  };
  for (auto& [number, of] : batch.prepared) {
    world_.latencies.Shuffle(of.nodes);
    world_.events.After(jittered(seconds.start), [this, of = std::move(of)] {
      if (const EpochRun* run = world_.training.Find(of.epoch)) SayPrepared(*run, of.nodes);
    });
  }
  for (auto& [number, of] : batch.started) {
    world_.events.After(jittered(seconds.load), [this, of = std::move(of)] {
      for (const int index : of.nodes) {
        EpochRun* run = world_.training.Find(of.epoch);
        Part* part = run == nullptr ? nullptr : nodes_[index].Find(run);
        if (part == nullptr || part->state != Part::State::kLoading) continue;
        world_.training.Loaded(*run, static_cast<int>(part->ranks.size()));
      }
    });
  }
  for (auto& [number, of] : batch.stopped) {
    world_.latencies.Shuffle(of.nodes);
    world_.events.After(jittered(seconds.stop), [this, of = std::move(of)] {
      for (const int index : of.nodes) {
        EpochRun* run = world_.training.Find(of.epoch);
        if (run == nullptr || nodes_[index].Find(run) == nullptr) continue;
        EndPart(nodes_[index], *run, v1::Finished::INTERRUPTED, "", -1);
      }
    });
  }
}

void Fleet::Handle(SimNode& node, const v1::ControllerMessage& message, Batch& batch) {
  if (world_.options.on_heard) world_.options.on_heard(node.name, message);
  switch (message.message_case()) {
    case v1::ControllerMessage::kWelcome:
      return OnWelcome(node, message.welcome());
    case v1::ControllerMessage::kPrepare:
      return OnPrepare(node, message.prepare(), batch);
    case v1::ControllerMessage::kStart:
      return OnStart(node, message.start(), batch);
    case v1::ControllerMessage::kStop:
      return OnStop(node, message.stop(), batch);
    case v1::ControllerMessage::kStopAfter: {
      EpochRun* run = world_.training.Find(message.stop_after().epoch());
      if (run != nullptr) world_.training.StopAfter(*run, message.stop_after().step());
      return;
    }
    case v1::ControllerMessage::kWriteManifest: {
      const v1::WriteManifest& manifest = message.write_manifest();
      world_.events.After(world_.options.latencies.manifest,
                          [this, epoch = manifest.epoch(), step = manifest.step()] {
                            const EpochRun* run = world_.training.Find(epoch);
                            if (run != nullptr && run->saved == step)
                              SayCommit(*run, epoch.epoch(), step);
                          });
      return;
    }
    case v1::ControllerMessage::kCommit: {
      EpochRun* run = world_.training.Find(message.commit().epoch());
      if (run != nullptr) world_.training.OnAnswer(*run, message.commit());
      return;
    }
    case v1::ControllerMessage::kDismiss:
      world_.invariants.Violate("an agent was dismissed: " + message.dismiss().reason());
      return;
    default:
      return;
  }
}

void Fleet::OnWelcome(SimNode& node, const v1::Welcome& welcome) {
  for (const auto& [at, ended] : std::exchange(node.past, {})) {
    SayEnded(node, ended);
    if (at + kTellsLately > world_.events.Now()) node.past.push_back({at, ended});
  }
  const std::vector<Part> parts = node.parts;
  for (const Part& part : parts) {
    EpochRun& run = *part.run;
    const bool kept =
        std::any_of(welcome.keep().begin(), welcome.keep().end(), [&](const v1::JobEpoch& epoch) {
          return epoch.job() == run.epoch.job() && epoch.epoch() == run.epoch.epoch();
        });
    if (!kept) {
      EndPart(node, run, v1::Finished::INTERRUPTED, "", -1);
      continue;
    }
    if (part.state != Part::State::kPreparing) SayPrepared(run, {node.index});
    if (part.state == Part::State::kRunning) {
      v1::AgentMessage running;
      *running.mutable_running()->mutable_epoch() = run.epoch;
      Say(node, running);
    }
    if (part.state == Part::State::kRunning && run.saved > 0) RepeatWritten(node, part);
  }
}

// Fragments of this node, or rank 0's request to commit, that nobody has answered.
void Fleet::RepeatWritten(SimNode& node, const Part& part) {
  const EpochRun& run = *part.run;
  if (world_.options.all_fragments) return SayFragments(node, part, run.saved);
  if (std::find(part.ranks.begin(), part.ranks.end(), 0) != part.ranks.end()) {
    SayCommit(run, run.epoch.epoch(), run.saved);
  }
}

void Fleet::OnPrepare(SimNode& node, const v1::PrepareEpoch& prepare, Batch& batch) {
  EpochRun& run = world_.training.Ensure(prepare);
  if (const Part* part = node.Find(&run); part != nullptr) {
    if (part->state == Part::State::kPrepared) SayPrepared(run, {node.index});
    return;
  }
  Part part = {.run = &run,
               .ranks = {prepare.own().begin(), prepare.own().end()},
               .devices = {prepare.devices().begin(), prepare.devices().end()}};
  int spawned = static_cast<int>(part.ranks.size());
  if (world_.options.bug == PlantedBug::kLeavesOutARank && part.ranks.back() == run.ranks - 1) {
    --spawned;
  }
  world_.training.AddPart(run, node.index, spawned);
  world_.invariants.OnSpawn(node.index, part, run);
  node.parts.push_back(std::move(part));
  batch.prepared[run.number].Add(run.epoch, node.index);
}

void Fleet::OnStart(SimNode& node, const v1::StartEpoch& start, Batch& batch) {
  EpochRun* run = world_.training.Find(start.epoch());
  Part* part = run == nullptr ? nullptr : node.Find(run);
  if (part == nullptr) return SayGone(node, start.epoch());
  if (start.addresses_size() != run->ranks) {
    world_.invariants.Violate(start.epoch().job() + " was started without all addresses");
  }
  if (part->state != Part::State::kPrepared) return;
  part->state = Part::State::kLoading;
  batch.started[run->number].Add(run->epoch, node.index);
}

void Fleet::OnStop(SimNode& node, const v1::StopEpoch& stop, Batch& batch) {
  EpochRun* run = world_.training.Find(stop.epoch());
  Part* part = run == nullptr ? nullptr : node.Find(run);
  if (part == nullptr) return SayGone(node, stop.epoch());
  if (part->state == Part::State::kEnding) return;
  const bool trains = run->phase == EpochRun::Phase::kTraining ||
                      run->phase == EpochRun::Phase::kSaving ||
                      run->phase == EpochRun::Phase::kFinishing;
  if (!stop.checkpoint() || !trains) {
    if (trains) world_.training.Break(*run, kPlanned);
    part->state = Part::State::kEnding;
    if (world_.options.bug == PlantedBug::kConfirmsTooEarly) SayGone(node, run->epoch);
    batch.stopped[run->number].Add(run->epoch, node.index);
    return;
  }
  const int64_t step =
      world_.training.StepOf(*run) + (run->phase == EpochRun::Phase::kTraining ? 1 : 0);
  if (static_cast<int>(part->ranks.size()) == run->ranks) {
    return world_.training.StopAfter(*run, step);
  }
  v1::AgentMessage message;
  *message.mutable_stopping()->mutable_epoch() = run->epoch;
  message.mutable_stopping()->set_step(step);
  Say(node, message);
}

}  // namespace strata::simulator
