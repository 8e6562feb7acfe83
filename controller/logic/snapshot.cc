#include "controller/logic/snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "controller/logic/buffer.h"
#include "controller/logic/cluster_map.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/job_record.h"
#include "controller/logic/names.h"
#include "controller/logic/snapshot_maker.h"

namespace strata::controller {
namespace {

// Equal for nodes that are shown alike; what else is shown of them changes with their records, and
// so with resource_version.
size_t PrintOf(const NodeEntry& node) {
  size_t print = absl::HashOf(node.state, node.session, node.incarnation, node.drained,
                              node.quarantined, node.resource_version, node.failures.size(),
                              node.leaving, node.left_out_for, node.met, node.holds.size());
  for (const auto& [key, hold] : node.holds) {
    print = absl::HashOf(print, key.job, key.epoch, hold.all_devices, hold.devices,
                         hold.stop.has_value());
  }
  return print;
}

// None but for a while after a restore.
std::set<std::string> AwaitedJobs(const ClusterState& state) {
  std::set<std::string> awaited;
  if (state.now >= state.restored_until) return awaited;
  for (const auto& [name, job] : state.jobs) {
    if (state.IsAwaited(job)) awaited.insert(name);
  }
  return awaited;
}

using Chosen = std::string (*)(const v1::JobSpec&);  // ProjectOf or QueueOf

// One per entry, in their order.
template <typename Entries, typename Usages>
void CountUsage(const Snapshot& snapshot, const Entries& entries, Chosen chosen, Usages& usages) {
  std::map<std::string, v1::PolicyUsage*> by_name;
  usages.Reserve(entries.size());
  for (const auto& entry : entries) {
    v1::PolicyUsage* usage = usages.Add();
    usage->set_name(entry.name());
    by_name[entry.name()] = usage;
  }
  snapshot.jobs.ForEachAfter("", [&](const v1::JobRecord& job) {
    if (IsTerminal(job.state())) return true;
    const auto found = by_name.find(chosen(job.spec()));
    if (found == by_name.end()) return true;
    v1::PolicyUsage& usage = *found->second;
    if (job.state() == v1::Job::QUEUED) {
      usage.set_queued_jobs(usage.queued_jobs() + 1);
      return true;
    }
    usage.set_active_jobs(usage.active_jobs() + 1);
    for (const v1::RankPlace& place : job.placement()) {
      const std::shared_ptr<const SnapshotNode> node = snapshot.nodes.Find(place.node());
      ++(*usage.mutable_devices())[node == nullptr ? job.spec().resources().device()
                                                   : node->shown.device()];
    }
    return true;
  });
}

}  // namespace

std::shared_ptr<const Snapshot> SnapshotMaker::Take(ClusterState& state) {
  const bool jobs = TakeJobs(state), nodes = TakeNodes(state), waiting = TakeWaiting(state);
  const bool recovering = (jobs || waiting) && TakeRecovering(state);
  const bool meta = TakeMeta(state, nodes || waiting);
  if (jobs || nodes || waiting || recovering || meta || last_ == nullptr) {
    last_ = std::make_shared<const Snapshot>(next_);
  }
  return last_;
}

bool SnapshotMaker::TakeJobs(ClusterState& state) {
  for (const std::string& name : state.changed_jobs) {
    const auto job = state.jobs.find(name);
    if (job == state.jobs.end()) {
      next_.jobs.Erase(name);
    } else {
      next_.jobs.Set(std::make_shared<const v1::JobRecord>(job->second.record));
    }
  }
  return !std::exchange(state.changed_jobs, {}).empty();
}

bool SnapshotMaker::TakeNodes(ClusterState& state) {
  bool changed = false;
  for (const std::string& name : state.nodes.TakeErased()) {
    next_.nodes.Erase(name);
    seen_.erase(name);
    changed = true;
  }
  for (const NodeEntry* node : state.nodes.TakeTouched(NodeTable::Watcher::kSnapshot)) {
    NodeSeen& seen = seen_[node->name];
    if (seen.heard_wall == nullptr) seen.heard_wall = std::make_shared<std::atomic<double>>(0);
    *seen.heard_wall = node->heard_wall;
    const size_t print = PrintOf(*node);
    if (seen.print == print && next_.nodes.Find(node->name) != nullptr) continue;
    seen.print = print;
    auto shown = std::make_shared<SnapshotNode>();
    shown->shown = ShowNode(*node);
    shown->shown.clear_last_heartbeat_time();
    shown->free = node->FreeDevices();
    for (const auto& [key, hold] : node->holds) {
      shown->holders.push_back({key.job, hold.stop.has_value()});
    }
    shown->usable = node->Usable();
    shown->takes_ranks = node->TakesRanks();
    shown->away = state.IsAway(*node);
    shown->left_out_for = node->left_out_for;
    shown->heard_wall = seen.heard_wall;
    next_.nodes.Set(std::move(shown));
    changed = true;
  }
  if (order_version_ != state.nodes.order_version()) {
    std::vector<std::string> names;
    for (const NodeEntry* node : state.nodes.Ordered()) names.push_back(node->name);
    order_version_ = state.nodes.order_version();
    next_.node_order = std::make_shared<const std::vector<std::string>>(std::move(names));
    changed = true;
  }
  return changed;
}

bool SnapshotMaker::TakeWaiting(const ClusterState& state) {
  if (decisions_ == state.scheduler.decisions) return false;
  decisions_ = state.scheduler.decisions;
  auto waiting = std::make_shared<Snapshot::WaitingByJob>();
  const auto add = [&](const JobEntry& job) {
    if (job.waiting != nullptr) waiting->emplace(job.record.name(), job.waiting);
  };
  for (const auto& [place, job] : state.queue) add(*job);
  for (const std::string& name : state.live) add(state.jobs.at(name));
  next_.waiting = std::move(waiting);
  next_.supply = state.scheduler.supply;
  return true;
}

// Of the few that recover at one time.
bool SnapshotMaker::TakeRecovering(const ClusterState& state) {
  if (state.recovering.empty() && next_.recovering->empty()) return false;
  auto recovering = std::make_shared<std::map<std::string, Snapshot::Recovery>>();
  for (const std::string& name : state.recovering) {
    const JobEntry& job = state.jobs.at(name);
    recovering->emplace(name, Snapshot::Recovery{job.next_start_at, job.claim_over});
  }
  next_.recovering = std::move(recovering);
  return true;
}

// Time passes with every tick: what takes time in proportion to the nodes is made anew only after
// what it is made of. Who is in the buffer depends on the nodes as the scheduler last saw them, and
// on records that got a new version.
bool SnapshotMaker::TakeMeta(ClusterState& state, bool decided) {
  const bool recorded =
      next_.resource_version != state.resource_version || next_.controller_term != state.term;
  const bool changed = recorded || next_.wall != state.wall || next_.map == nullptr;
  next_.resource_version = state.resource_version;
  next_.controller_term = state.term;
  next_.wall = state.wall;
  next_.now = state.now;
  next_.started_wall = state.started_wall;
  next_.restored_until = state.restored_until;
  if (recorded || decided || next_.buffer == nullptr) {
    next_.buffer = std::make_shared<const BufferState>(BufferNow(state));
  }
  if (policies_ != state.policies) {
    policies_ = state.policies;
    next_.policy = std::make_shared<const v1::Policy>(state.policy);
  }
  if (auto awaited = AwaitedJobs(state); awaited != *next_.awaited) {
    next_.awaited = std::make_shared<const std::set<std::string>>(std::move(awaited));
  }
  if (map_version_ != state.nodes.order_version() || next_.map == nullptr) {
    map_version_ = state.nodes.order_version();
    topology::Description map = state.map;
    NameLevels(state.nodes, map);
    next_.map = std::make_shared<const topology::Description>(std::move(map));
  }
  return changed;
}

v1::Job ShowJob(const Snapshot& snapshot, const v1::JobRecord& job) {
  v1::Job shown = ToJob(job);
  if (HasEpoch(job.state()) && job.has_run_time_as_of()) {
    const double since = std::max(0.0, snapshot.wall - SecondsOf(job.run_time_as_of()));
    *shown.mutable_run_time() = ToDuration(SecondsOf(job.run_time()) + since);
  }
  if (job.state() != v1::Job::QUEUED || job.reason() != kWaitsForDevices) return shown;
  const auto waiting = snapshot.waiting->find(job.name());
  if (waiting != snapshot.waiting->end()) shown.set_reason(waiting->second->reason);
  return shown;
}

v1::Node ShowNode(const Snapshot& snapshot, const SnapshotNode& node) {
  v1::Node shown = node.shown;
  if (const double heard = *node.heard_wall; heard > 0) {
    *shown.mutable_last_heartbeat_time() = ToTimestamp(heard);
  }
  shown.set_buffer(snapshot.buffer->free.contains(shown.name()) ||
                   snapshot.buffer->lent.contains(shown.name()));
  return shown;
}

scheduler::Occupancy FreeNow(const Snapshot& snapshot) {
  scheduler::Occupancy now = snapshot.supply->free;
  for (const auto& [name, at] : snapshot.supply->tree->index) {
    const std::shared_ptr<const SnapshotNode> node = snapshot.nodes.Find(name);
    uint64_t free = 0;
    if (node != nullptr && node->takes_ranks) {
      for (const int device : node->free) free |= uint64_t{1} << device;
    }
    now.free[at] &= free;
  }
  return now;
}

v1::GetPolicyResponse ShowPolicy(const Snapshot& snapshot) {
  v1::GetPolicyResponse response;
  const v1::Policy& policy = *response.mutable_policy() = *snapshot.policy;
  CountUsage(snapshot, policy.projects(), &ProjectOf, *response.mutable_projects());
  CountUsage(snapshot, policy.queues(), &QueueOf, *response.mutable_queues());
  return response;
}

v1::Topology ShowTopology(const Snapshot& snapshot) {
  topology::Description description = *snapshot.map;
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    if (node.shown.device().empty() || node.shown.devices() == 0) return true;  // only its name
    topology::Node& described = description.nodes.emplace_back();
    described.name = ShortName(node.shown.name());
    described.kind = node.shown.device();
    described.devices = std::min(node.shown.devices(), topology::kMostDevices);
    for (const int device : node.free) {
      if (device < described.devices) described.free.push_back(device);
    }
    described.healthy = node.takes_ranks;
    for (const std::string& level : description.levels) {
      const auto value = node.shown.locality().find(level);
      described.at.push_back(value == node.shown.locality().end() ? "" : value->second);
    }
    return true;
  });
  return ToProto(topology::Cluster::Make(std::move(description)));
}

}  // namespace strata::controller
