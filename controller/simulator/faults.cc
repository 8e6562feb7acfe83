#include "controller/simulator/faults.h"

#include <algorithm>
#include <map>

#include "controller/simulator/failures.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

constexpr double kLeastRepairSeconds = 60;
constexpr size_t kMostOfASwitch = 64;        // above that it is not one that fails as a whole
constexpr double kFirstVerdictSeconds = 60;  // of ranks that have not taken a step yet

}  // namespace

void Faults::Begin() {
  FindNeighbours();
  if (world_.options.failure_rate > 0) PlanFailure();
  if (world_.options.controller_ends_per_day > 0) PlanControllerEnd();
}

// Groups of nodes with the same values from the outermost level to the innermost one at which more
// than one node meets.
void Faults::FindNeighbours() {
  const topology::Description& map = world_.options.cluster;
  const int nodes = static_cast<int>(map.nodes.size());
  group_of_.assign(nodes, -1);
  for (size_t depth = map.levels.size(); depth > 0; --depth) {
    std::map<std::vector<std::string>, std::vector<int>> groups;
    for (int node = 0; node < nodes; ++node) {
      const std::vector<std::string>& at = map.nodes[node].at;
      groups[{at.begin(), at.begin() + static_cast<std::ptrdiff_t>(depth)}].push_back(node);
    }
    for (const auto& [path, members] : groups) {
      if (members.size() < 2 || members.size() > kMostOfASwitch) continue;
      neighbours_.emplace_back();
      for (const int node : members) {
        if (group_of_[node] >= 0) continue;
        group_of_[node] = static_cast<int>(neighbours_.size()) - 1;
        neighbours_.back().push_back(node);
      }
    }
  }
  for (int node = 0; node < nodes; ++node) {
    if (group_of_[node] >= 0) continue;
    group_of_[node] = static_cast<int>(neighbours_.size());
    neighbours_.push_back({node});
  }
}

// One process for all nodes together; what it deals to a node that is away strikes nobody.
void Faults::PlanFailure() {
  std::vector<SimNode>& nodes = world_.fleet.nodes();
  const double rate = static_cast<double>(nodes.size()) *
                      RatePerNodeSecond(world_.options.causes, world_.options.failure_rate);
  world_.events.After(world_.failures.Exponential(1 / rate), [this, &nodes] {
    SimNode& node = nodes[world_.failures.Below(static_cast<int64_t>(nodes.size()))];
    const int cause = DrawCause(world_.options.causes, world_.failures);
    if (node.alive && node.reachable) Strike(node, cause);
    PlanFailure();
  });
}

void Faults::PlanControllerEnd() {
  const double mean = kDaySeconds / world_.options.controller_ends_per_day;
  world_.events.After(world_.operators.Exponential(mean), [this] {
    world_.statistics.OnControllerEnd();
    world_.host.Kill(world_.options.latencies.controller_down);
    PlanControllerEnd();
  });
}

void Faults::Strike(SimNode& node, int cause) {
  world_.statistics.OnFailure(cause, !node.parts.empty());
  switch (world_.options.causes[cause].effect) {
    case Effect::kProcessDies:
      return KillProcess(node, cause, /*leaves=*/false);
    case Effect::kDeviceDies:
      return KillProcess(node, cause, /*leaves=*/true);
    case Effect::kPowerLoss:
      return LosePower(node, cause);
    case Effect::kHang:
      return Hang(node, cause);
    case Effect::kUnreachable:
      return Isolate(node, cause, RepairSeconds(cause));
    case Effect::kSwitch:
      return LoseSwitch(node, cause);
    case Effect::kMaintenance:
      return Maintain(node, cause);
  }
}

double Faults::RepairSeconds(int cause) {
  const double mean = world_.options.causes[cause].repair_hours * 3600;
  return std::max(kLeastRepairSeconds, world_.failures.Exponential(mean));
}

void Faults::BreakAll(SimNode& node, int cause) {
  for (const Part& part : node.parts) world_.training.Break(*part.run, cause);
}

void Faults::BootAfter(SimNode& node, double seconds, bool drained) {
  world_.events.After(seconds, [this, &node, life = node.life, drained] {
    if (life != node.life) return;
    world_.fleet.Boot(node);
    if (drained) world_.host.Drain(node.name, false);
  });
}

// A trainer ends; with `leaves` all that run there do, and the node is away for repair.
void Faults::KillProcess(SimNode& node, int cause, bool leaves) {
  if (leaves) {
    BreakAll(node, cause);
    world_.events.After(world_.options.latencies.word, [this, &node, cause, life = node.life] {
      if (life != node.life) return;
      while (!node.parts.empty()) {
        const Part& part = node.parts.back();
        world_.fleet.EndPart(node, *part.run, v1::Finished::FAILED, "trainer_died",
                             part.ranks.front());
      }
      TakeAway(node, cause);
    });
    return;
  }
  if (node.parts.empty()) return;
  const Part& part = node.parts[world_.failures.Below(static_cast<int64_t>(node.parts.size()))];
  world_.training.Break(*part.run, cause);
  world_.events.After(world_.options.latencies.word, [this, &node, epoch = part.run->epoch,
                                                      rank = part.ranks.front(), life = node.life] {
    EpochRun* run = world_.training.Find(epoch);
    if (life != node.life || run == nullptr || node.Find(run) == nullptr) return;
    world_.fleet.EndPart(node, *run, v1::Finished::FAILED, "trainer_died", rank);
  });
}

void Faults::Hang(SimNode& node, int cause) {
  const bool leaves = world_.options.causes[cause].repair_hours > 0;
  if (node.parts.empty()) {
    if (leaves) TakeAway(node, cause);
    return;
  }
  const Part& part = node.parts[world_.failures.Below(static_cast<int64_t>(node.parts.size()))];
  EpochRun& run = *part.run;
  const double verdict = run.phase == EpochRun::Phase::kStarting
                             ? kFirstVerdictSeconds
                             : HangVerdict(run.seconds_per_step);
  world_.training.Break(run, cause);
  world_.events.After(verdict, [this, &node, epoch = run.epoch, rank = part.ranks.front(), verdict,
                                cause, leaves, life = node.life] {
    if (life != node.life) return;
    EpochRun* hung = world_.training.Find(epoch);
    if (hung != nullptr && node.Find(hung) != nullptr) {
      world_.fleet.SayHang(node, *hung, rank, {}, verdict);
      world_.fleet.EndPart(node, *hung, v1::Finished::FAILED, "hang", rank);
    }
    if (!leaves) return;
    BreakAll(node, cause);
    TakeAway(node, cause);
  });
}

void Faults::LosePower(SimNode& node, int cause) {
  BreakAll(node, cause);
  world_.fleet.PowerOff(node);
  BootAfter(node, RepairSeconds(cause), /*drained=*/false);
}

void Faults::LoseSwitch(SimNode& node, int cause) {
  const double seconds = RepairSeconds(cause);
  for (const int neighbour : NeighboursOf(node.index)) {
    SimNode& other = world_.fleet.nodes()[neighbour];
    if (other.alive && other.reachable) Isolate(other, cause, seconds);
  }
}

void Faults::Isolate(SimNode& node, int cause, double seconds) {
  BreakAll(node, cause);
  world_.fleet.Isolate(node, seconds);
}

// Drained first, so that what runs there can save and move; then it is taken in any case.
void Faults::Maintain(SimNode& node, int cause) {
  world_.host.Drain(node.name, true);
  world_.events.After(world_.options.latencies.notice, [this, &node, cause, life = node.life] {
    if (life != node.life) return world_.host.Drain(node.name, false);
    BreakAll(node, cause);
    world_.fleet.Leave(node, "node_lost");
    BootAfter(node, RepairSeconds(cause), /*drained=*/true);
  });
}

void Faults::TakeAway(SimNode& node, int cause) {
  world_.fleet.Leave(node, "node_lost");
  BootAfter(node, RepairSeconds(cause), /*drained=*/false);
}

}  // namespace strata::simulator
