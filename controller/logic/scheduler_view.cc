#include "controller/logic/scheduler_view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/check.h"
#include "controller/logic/cluster_map.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

using scheduler::Device;
using scheduler::JobPhase;
using scheduler::JobView;
using scheduler::Occupancy;

using Names = google::protobuf::RepeatedPtrField<std::string>;
using Places = google::protobuf::RepeatedPtrField<v1::RankPlace>;

uint64_t Bit(int device) { return uint64_t{1} << device; }

// Devices of ranks that have ended, or are missed, while their job goes on: it may have to begin
// again there, unless it is stopped to make room, to move, or for good.
void AddEnded(const ClusterState& state, const JobEntry& job, std::vector<Device>& kept) {
  const v1::JobRecord& record = job.record;
  if (record.cancel_requested() || record.suspended()) return;
  if (record.has_preemption() && record.preemption().by() != record.name()) return;
  for (const auto& [name, member] : job.run.members) {
    const auto node = state.scheduler.tree->index.find(name);
    const bool ended = member.state == MemberState::kEnded || member.missed_at.has_value();
    if (!ended || node == state.scheduler.tree->index.end()) continue;
    for (const int device : member.devices) kept.push_back({node->second, device});
  }
}

// What is kept for a job beside what its ranks hold: what it had, while it recovers, and where it
// is about to move.
std::vector<Device> KeptFor(const ClusterState& state, const JobEntry& job) {
  std::vector<Device> kept = MovingTo(state, job.record).ranks;
  if (HasEpoch(job.record.state())) {
    AddEnded(state, job, kept);
    return kept;
  }
  if (job.record.state() != v1::Job::RECOVERING || job.claim_over) return {};
  const std::vector<Device> had = PlacementOf(state, job.record).ranks;
  kept.insert(kept.end(), had.begin(), had.end());
  return kept;
}

// Of its time limit.
std::optional<double> SecondsAllowed(const ClusterState& state, const JobEntry& job) {
  if (!job.record.spec().has_time_limit()) return std::nullopt;
  return std::max(0.0, SecondsOf(job.record.spec().time_limit()) - RunSeconds(state, job));
}

// At the pace of this epoch's steps, and no longer than it may.
std::optional<double> SecondsLeft(const ClusterState& state, const JobEntry& job) {
  const std::optional<double> allowed = SecondsAllowed(state, job);
  const int64_t steps = job.record.step() - job.run.pace_step;
  if (!job.run.paced || steps < 2) return allowed;
  const double pace = (job.run.stepped_at - job.run.paced_at) / static_cast<double>(steps);
  const double done =
      job.run.stepped_at + pace * static_cast<double>(job.record.target_step() - job.record.step());
  const double left = std::max(0.0, done - state.now);
  return allowed.has_value() ? std::min(left, *allowed) : left;
}

// Of a job that recovers: where its ranks were, or are to move, and -1 for those that cannot go
// there.
scheduler::Placement Remains(const ClusterState& state, const JobEntry& job) {
  scheduler::Placement placement =
      job.record.has_moving_to() ? MovingTo(state, job.record) : PlacementOf(state, job.record);
  for (Device& rank : placement.ranks) {
    if (rank.node < 0) continue;
    const NodeEntry& node = *state.scheduler.nodes[rank.node];
    const bool free = node.TakesRanks() && (node.FreeMask() & Bit(rank.device)) != 0;
    if (!free || job.claim_over) rank = {};
  }
  return placement;
}

JobPhase PhaseOf(const ClusterState& state, const JobEntry& job) {
  const v1::JobRecord& record = job.record;
  if (record.state() == v1::Job::QUEUED) return JobPhase::kQueued;
  if (record.state() == v1::Job::RECOVERING) {
    return MayStart(state, job) ? JobPhase::kRecovering : JobPhase::kStopping;
  }
  const bool stops =
      record.cancel_requested() || record.has_preemption() || job.run.stop_asked_at.has_value();
  return stops ? JobPhase::kStopping : JobPhase::kRunning;
}

JobView ViewOf(const ClusterState& state, const JobEntry& job) {
  const v1::JobRecord& record = job.record;
  JobView view;
  view.name = ShortName(record.name());
  view.shape = &job.shape;
  view.phase = PhaseOf(state, job);
  view.priority = record.spec().resources().priority();
  view.project = ProjectOf(record.spec());
  view.queue = QueueOf(record.spec());
  view.preemptible = record.spec().resources().preemptible();
  view.order = record.created_version();
  view.submitted_at = state.now - state.wall + static_cast<double>(record.create_time().seconds());
  if (record.has_preemption()) view.preempted_by = ShortName(record.preemption().by());
  view.seconds_left = SecondsLeft(state, job);
  if (view.phase == JobPhase::kQueued) return view;
  view.started_at = job.run.begun_at;
  view.checkpoint_at = std::max(job.run.begun_at, job.run.checkpoint_at);
  view.failed_at = job.failed_at;
  view.held =
      view.phase == JobPhase::kRecovering ? Remains(state, job) : PlacementOf(state, record);
  return view;
}

// Epochs that are over, and whose ranks their nodes have not ended yet: devices that come soon.
void AddEnding(const ClusterState& state, std::map<EpochKey, scheduler::Shape>& shapes,
               scheduler::View& view) {
  std::map<EpochKey, scheduler::Placement> ending;
  for (size_t i = 0; i < state.scheduler.nodes.size(); ++i) {
    const NodeEntry& node = *state.scheduler.nodes[i];
    if (!node.TakesRanks()) continue;
    for (const auto& [key, hold] : node.holds) {
      const auto job = state.jobs.find(key.job);
      const bool counted = job != state.jobs.end() && !IsTerminal(job->second.record.state()) &&
                           job->second.record.state() != v1::Job::QUEUED &&
                           job->second.key() == key;
      if (counted || hold.all_devices) continue;
      scheduler::Placement& placement = ending[key];
      placement.kind = node.kind;
      for (const int device : hold.devices)
        placement.ranks.push_back({static_cast<int>(i), device});
    }
  }
  for (auto& [key, placement] : ending) {
    JobView& job = view.jobs.emplace_back();
    job.name = absl::StrCat(ShortName(key.job), " (epoch ", key.epoch, ")");
    scheduler::Shape& shape = shapes[key];
    shape.degrees[static_cast<size_t>(planner::Dimension::kData)] =
        static_cast<int64_t>(placement.ranks.size());
    shape.device = placement.kind;
    job.shape = &shape;
    job.phase = JobPhase::kStopping;
    job.project = job.queue = "";  // of nobody's quota: the job itself is over
    job.held = std::move(placement);
  }
}

// Nobody begins again on a device that is kept for another: jobs whose records came from a backup
// may have had it one after the other. Who is about to move there comes first.
void ShareClaims(const ClusterState& state, scheduler::View& view) {
  std::vector<uint64_t> kept(state.scheduler.nodes.size(), 0);
  std::vector<JobView*> moving, recovering;
  for (JobView& of : view.jobs) {
    const JobEntry& job = state.jobs.at(absl::StrCat("jobs/", of.name));
    if (of.phase == JobPhase::kRecovering) {
      (job.record.has_moving_to() ? moving : recovering).push_back(&of);
      continue;
    }
    for (const Device& device : KeptFor(state, job)) {
      if (device.node >= 0) kept[device.node] |= Bit(device.device);
    }
  }
  moving.insert(moving.end(), recovering.begin(), recovering.end());
  for (JobView* of : moving) {
    for (Device& rank : of->held->ranks) {
      if (rank.node < 0) continue;
      const bool taken = (kept[rank.node] & Bit(rank.device)) != 0;
      kept[rank.node] |= Bit(rank.device);
      if (taken) rank = {};
    }
  }
}

// Nodes of the asked kind that were not heard from since the controller's start.
class AwayNodes {
 public:
  explicit AwayNodes(double started_wall)
      : since_(
            absl::StrCat("not heard from since this controller's start at ",
                         absl::FormatTime("%Y-%m-%d %H:%M:%S UTC",
                                          absl::FromUnixSeconds(static_cast<int64_t>(started_wall)),
                                          absl::UTCTimeZone()))) {}
  void Add(const std::string& name, int devices) {
    if (++count_ > kNamed) return;
    parts_.push_back(absl::StrCat(ShortName(name), ": ", devices,
                                  devices == 1 ? " device, " : " devices, ", since_));
  }
  // "; away: n1: 1 device, not heard from …", or nothing.
  std::string Text() const {
    if (parts_.empty()) return "";
    const std::string more = count_ > kNamed ? absl::StrCat("; ", count_ - kNamed, " more") : "";
    return absl::StrCat("; away: ", absl::StrJoin(parts_, "; "), more);
  }

 private:
  static constexpr size_t kNamed = 4;
  const std::string since_;
  std::vector<std::string> parts_;
  size_t count_ = 0;
};

// Empty: a state of the cluster holds it.
std::string WhyNever(const topology::Cluster& cluster, const scheduler::Shape& shape) {
  const Occupancy ideal = Occupancy::Ideal(cluster);
  if (scheduler::Place(cluster, ideal, shape).has_value()) return "";
  const scheduler::Refusal refusal = scheduler::WhyNot(cluster, ideal, shape);
  if (!refusal.nearest.has_value()) return refusal.reason;
  return absl::StrCat(refusal.reason, "; nearest: ", refusal.nearest->text);
}

}  // namespace

void RefreshCluster(ClusterState& state) {
  SchedulerState& made = state.scheduler;
  if (!made.made) {
    topology::Description description = DescribeCluster(state);
    std::erase_if(description.nodes, [&](const topology::Node& node) {
      return state.IsAway(*state.nodes.Find(NodeName(node.name)));
    });
    auto cluster = topology::Cluster::Make(std::move(description));
    STRATA_CHECK(cluster.ok());  // no agent can bring that about: see Admit, FoundLevels
    made.cluster = *std::move(cluster);
    made.nodes.clear();
    made.infeasible.clear();
    auto tree = std::make_shared<ClusterTree>();
    tree->cluster = made.cluster;
    for (const topology::Node& node : made.cluster.nodes()) {
      NodeEntry* entry = state.nodes.Find(NodeName(node.name));
      tree->index[entry->name] = static_cast<int>(made.nodes.size());
      made.nodes.push_back(entry);
    }
    made.tree = std::move(tree);
    made.made = true;
  }
  for (const NodeEntry* node : state.nodes.TakeTouched(NodeTable::Watcher::kScheduler)) {
    const auto at = made.tree->index.find(node->name);
    if (at == made.tree->index.end()) continue;
    made.cluster.SetState(at->second, node->FreeDevices(), node->TakesRanks());
  }
}

scheduler::Policy PolicyOf(const v1::Policy& policy) {
  scheduler::Policy made;
  for (const v1::ProjectPolicy& project : policy.projects()) {
    made.projects[project.name()].device_quota = {project.quota().begin(), project.quota().end()};
  }
  for (const v1::QueuePolicy& queue : policy.queues()) {
    made.queues[queue.name()] = {queue.priority(), queue.max_devices(), queue.preemptible()};
  }
  const v1::SchedulingPolicy& scheduling = policy.scheduling();
  made.min_run_seconds = scheduling.min_run_seconds();
  made.shrink_after_seconds = scheduling.shrink_after_seconds();
  made.unknown_run_seconds = scheduling.unknown_run_seconds();
  made.preemption_gap = scheduling.preemption_gap();
  made.defragment = scheduling.defragment();
  if (scheduling.has_buffer()) {
    const v1::BufferPolicy& buffer = scheduling.buffer();
    made.buffer = {buffer.level(), buffer.nodes(), buffer.fraction()};
  }
  return made;
}

int64_t EffectivePriority(const v1::Policy& policy, const v1::JobSpec& spec) {
  const std::string name = QueueOf(spec);
  for (const v1::QueuePolicy& queue : policy.queues()) {
    if (queue.name() == name) return spec.resources().priority() + queue.priority();
  }
  return spec.resources().priority();
}

Occupancy FreeDevices(const ClusterState& state, const JobEntry* but) {
  Occupancy free;
  free.free.reserve(state.scheduler.nodes.size());
  for (const NodeEntry* node : state.scheduler.nodes) {
    free.free.push_back(node->TakesRanks() ? node->FreeMask() : 0);
  }
  for (const std::string& name : state.live) {
    const JobEntry& job = state.jobs.at(name);
    if (&job == but) continue;
    for (const Device& device : KeptFor(state, job)) {
      if (device.node >= 0) free.free[device.node] &= ~Bit(device.device);
    }
  }
  return free;
}

namespace {

scheduler::Placement Locate(const ClusterTree& tree, const Places& places, const Names& order) {
  scheduler::Placement placement;
  placement.order = OrderOf(order);
  placement.ranks.reserve(places.size());
  const std::string* last = nullptr;  // neighbours mostly share a node
  int node = -1;
  for (const v1::RankPlace& place : places) {
    if (last == nullptr || *last != place.node()) {
      last = &place.node();
      const auto found = tree.index.find(place.node());
      node = found == tree.index.end() ? -1 : found->second;
    }
    placement.ranks.push_back(node < 0 ? Device() : Device{node, place.device()});
    if (node >= 0 && placement.kind.empty()) placement.kind = tree.cluster.nodes()[node].kind;
  }
  return placement;
}

}  // namespace

scheduler::Placement MovingTo(const ClusterState& state, const v1::JobRecord& job) {
  return Locate(*state.scheduler.tree, job.moving_to().ranks(), job.moving_to().order());
}

scheduler::Placement PlacementOf(const ClusterTree& tree, const v1::JobRecord& job) {
  scheduler::Placement placement = Locate(tree, job.placement(), job.layout().order());
  for (const std::string& spare : job.layout().spares()) {
    const auto found = tree.index.find(spare);
    if (found != tree.index.end()) placement.spares.push_back(found->second);
  }
  return placement;
}

scheduler::Placement PlacementOf(const ClusterState& state, const v1::JobRecord& job) {
  return PlacementOf(*state.scheduler.tree, job);
}

bool MayStart(const ClusterState& state, const JobEntry& job) {
  if (state.now < job.next_start_at || state.IsAwaited(job)) return false;
  // Given up before this controller's start: whoever comes back with its ranks comes first.
  if (job.given_up.has_value() && state.now < state.restored_until) return false;
  if (state.now > job.failed_at + state.timing.stop_seconds) return true;
  // Nodes that are there will have ended the old ranks in a moment: then the new ones find their
  // devices, and what is cached, where they were.
  const EpochKey key = job.key();
  const std::string* last = nullptr;
  for (const v1::RankPlace& place : job.record.placement()) {
    if (last != nullptr && *last == place.node()) continue;
    last = &place.node();
    const NodeEntry* node = state.nodes.Find(place.node());
    if (node != nullptr && node->Usable() && node->holds.contains(key)) return false;
  }
  return true;
}

scheduler::View MakeView(ClusterState& state) {
  scheduler::View view;
  view.cluster = &state.scheduler.cluster;
  view.occupancy = FreeDevices(state);
  view.policy = PolicyOf(state.policy);
  view.now = state.now;
  view.jobs.reserve(state.live.size() + state.queue.size());
  for (const std::string& name : state.live) {
    view.jobs.push_back(ViewOf(state, state.jobs.at(name)));
  }
  ShareClaims(state, view);
  for (const auto& [place, job] : state.queue) {
    if (job->record.suspended() || state.IsAwaited(*job)) continue;
    if (WhyInfeasible(state, job->shape).empty()) view.jobs.push_back(ViewOf(state, *job));
  }
  state.scheduler.ending.clear();
  AddEnding(state, state.scheduler.ending, view);
  return view;
}

bool IsKindFor(const std::string& asked, const std::string& kind) {
  return asked == "gpu" ? kind != "cpu" : asked == kind;
}

std::string WhyInfeasible(ClusterState& state, const scheduler::Shape& shape) {
  SchedulerState& made = state.scheduler;
  if (!made.made) RefreshCluster(state);
  if (made.nodes.empty()) return "";
  const auto [found, unknown] =
      made.infeasible.try_emplace({shape.degrees, shape.device, shape.topology});
  if (unknown) found->second = WhyNever(made.cluster, shape);
  if (unknown && !found->second.empty()) {
    AwayNodes away(state.started_wall);
    for (const auto& [name, node] : state.nodes.all()) {
      if (state.IsAway(node) && IsKindFor(shape.device, node.kind)) away.Add(name, node.devices);
    }
    found->second += away.Text();
  }
  return found->second;
}

std::string WhyInfeasible(const Snapshot& snapshot, const scheduler::Shape& shape) {
  const topology::Cluster& cluster = snapshot.supply->tree->cluster;
  const std::string never = cluster.nodes().empty() ? "" : WhyNever(cluster, shape);
  if (never.empty()) return "";
  AwayNodes away(snapshot.started_wall);
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    if (node.away && IsKindFor(shape.device, node.shown.device())) {
      away.Add(node.shown.name(), node.shown.devices());
    }
    return true;
  });
  return never + away.Text();
}

}  // namespace strata::controller
