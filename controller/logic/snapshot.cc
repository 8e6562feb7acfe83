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
                              node.leaving, node.left_out_for, node.holds.size());
  for (const auto& [key, hold] : node.holds) {
    print = absl::HashOf(print, key.job, key.epoch, hold.all_devices, hold.devices);
  }
  return print;
}

}  // namespace

std::shared_ptr<const Snapshot> SnapshotMaker::Take(ClusterState& state) {
  const bool jobs = TakeJobs(state), nodes = TakeNodes(state), waiting = TakeWaiting(state);
  if (TakeMeta(state, nodes || waiting) || jobs || nodes || waiting || last_ == nullptr) {
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
    shown->takes_ranks = node->TakesRanks();
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
  auto waiting = std::make_shared<std::map<std::string, std::string>>();
  for (const auto& [place, job] : state.queue) {
    if (!job->waiting.reason.empty()) waiting->emplace(job->record.name(), job->waiting.reason);
  }
  next_.waiting = std::move(waiting);
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
  if (recorded || decided || next_.buffer == nullptr) {
    const BufferState buffer = BufferNow(state);
    auto nodes = std::make_shared<std::set<std::string>>(buffer.free);
    nodes->insert(buffer.lent.begin(), buffer.lent.end());
    next_.buffer = std::move(nodes);
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
  if (waiting != snapshot.waiting->end()) shown.set_reason(waiting->second);
  return shown;
}

v1::Node ShowNode(const Snapshot& snapshot, const SnapshotNode& node) {
  v1::Node shown = node.shown;
  if (const double heard = *node.heard_wall; heard > 0) {
    *shown.mutable_last_heartbeat_time() = ToTimestamp(heard);
  }
  shown.set_buffer(snapshot.buffer->contains(shown.name()));
  return shown;
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
