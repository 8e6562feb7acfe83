#include "controller/logic/scheduler_figures.h"

#include <algorithm>
#include <bit>
#include <set>

#include "controller/logic/buffer.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {

SchedulerFigures FiguresOf(const ClusterState& state) {
  SchedulerFigures figures;
  figures.pending_jobs = static_cast<int64_t>(state.queue.size());
  std::set<std::string> spares;
  for (const std::string& name : state.live) {
    const v1::RankLayout& layout = state.jobs.at(name).record.layout();
    spares.insert(layout.spares().begin(), layout.spares().end());
  }
  for (const auto& [name, node] : state.nodes.all()) {
    ++figures.nodes[node.state];
    figures.devices += node.devices;
    if (node.TakesRanks()) figures.free_devices += std::popcount(node.FreeMask());
  }
  const BufferState buffer = BufferNow(state);
  figures.buffer_free = static_cast<int64_t>(buffer.free.size());
  figures.buffer_lent = static_cast<int64_t>(buffer.lent.size());
  figures.buffer_missing = buffer.missing;
  const topology::Cluster& cluster = state.scheduler.cluster;
  const scheduler::Occupancy free = FreeDevices(state);
  std::map<std::pair<int, std::string>, int64_t> blocks;  // by domain and kind
  for (size_t i = 0; i < state.scheduler.nodes.size(); ++i) {
    const NodeEntry& node = *state.scheduler.nodes[i];
    const int here = std::popcount(free.free[i]);
    SchedulerFigures::Kind& kind = figures.kinds[node.kind];
    kind.free += here;
    const int domain = cluster.GroupOf(static_cast<int>(i), cluster.domain_depth());
    int64_t& block = blocks[{domain, node.kind}];
    block += here;
    kind.largest_block = std::max(kind.largest_block, block);
    figures.drained_nodes += node.drained ? 1 : 0;
    figures.quarantined_nodes += node.quarantined ? 1 : 0;
    figures.spare_nodes += here == node.devices && spares.contains(node.name) ? 1 : 0;
  }
  return figures;
}

}  // namespace strata::controller
