#include "controller/logic/buffer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {
namespace {

bool IsPreemptibleQueue(const v1::Policy& policy, const std::string& name) {
  return std::any_of(
      policy.queues().begin(), policy.queues().end(),
      [&](const v1::QueuePolicy& queue) { return queue.name() == name && queue.preemptible(); });
}

}  // namespace

bool RunsPreemptibly(const ClusterState& state, const JobEntry& job) {
  const v1::JobSpec& spec = job.record.spec();
  return HasEpoch(job.record.state()) &&
         (spec.resources().preemptible() || IsPreemptibleQueue(state.policy, QueueOf(spec)));
}

BufferState BufferNow(const ClusterState& state) {
  BufferState found;
  if (!state.policy.scheduling().has_buffer()) return found;
  scheduler::View view;
  view.cluster = &state.scheduler.cluster;
  view.occupancy = FreeDevices(state);
  view.policy = PolicyOf(state.policy);
  view.now = state.now;
  for (const std::string& name : state.live) {
    const JobEntry& job = state.jobs.at(name);
    const bool stops = job.record.cancel_requested() || job.record.has_preemption() ||
                       job.run.stop_asked_at.has_value();
    if (stops || !RunsPreemptibly(state, job)) continue;
    scheduler::JobView& borrower = view.jobs.emplace_back();
    borrower.name = ShortName(name);
    borrower.phase = scheduler::JobPhase::kRunning;
    borrower.preemptible = true;
    borrower.held = PlacementOf(state, job.record);
  }
  const scheduler::BufferNodes nodes = scheduler::BufferOf(view);
  for (const int node : nodes.free) found.free.insert(state.scheduler.nodes[node]->name);
  for (const int node : nodes.lent) found.lent.insert(state.scheduler.nodes[node]->name);
  found.missing = nodes.missing;
  return found;
}

absl::Status CheckBufferLevel(ClusterState& state, const v1::Policy& policy) {
  const std::string& level = policy.scheduling().buffer().level();
  if (!policy.scheduling().has_buffer() || level == scheduler::kWholeCluster) {
    return absl::OkStatus();
  }
  RefreshCluster(state);
  if (state.scheduler.nodes.empty() && state.map.levels.empty()) {
    return absl::OkStatus();  // nobody has said yet which levels there are
  }
  const std::vector<std::string>& levels = state.scheduler.cluster.levels();
  if (std::find(levels.begin(), levels.end(), level) != levels.end()) return absl::OkStatus();
  return InvalidField("scheduling.buffer.level",
                      absl::StrCat("the topology has no level ", level, " — its levels are ",
                                   absl::StrJoin(levels, ", "), ", and cluster is all of it"));
}

}  // namespace strata::controller
