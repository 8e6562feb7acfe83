#include "controller/logic/scheduler_figures.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>

#include "controller/logic/job_entry.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

// Of what a new rank may take, on the nodes that count as the cluster's.
void AddSupply(const Snapshot& snapshot, const std::set<std::string>& spares,
               SchedulerFigures& figures) {
  const topology::Cluster& cluster = snapshot.supply->tree->cluster;
  const scheduler::Occupancy free = FreeNow(snapshot);
  std::map<std::pair<int, std::string>, int64_t> blocks;  // by domain and kind
  for (size_t i = 0; i < cluster.nodes().size(); ++i) {
    const std::string name = NodeName(cluster.nodes()[i].name);
    const std::shared_ptr<const SnapshotNode> node = snapshot.nodes.Find(name);
    if (node == nullptr) continue;  // it has gone since
    const v1::Node& shown = node->shown;
    const int here = std::popcount(free.free[i]);
    SchedulerFigures::Kind& kind = figures.kinds[shown.device()];
    kind.free += here;
    const int domain = cluster.GroupOf(static_cast<int>(i), cluster.domain_depth());
    int64_t& block = blocks[{domain, shown.device()}];
    block += here;
    kind.largest_block = std::max(kind.largest_block, block);
    figures.drained_nodes += shown.drained() ? 1 : 0;
    figures.quarantined_nodes += shown.quarantined() ? 1 : 0;
    figures.spare_nodes += here == shown.devices() && spares.contains(name) ? 1 : 0;
  }
}

}  // namespace

SchedulerFigures FiguresOf(const Snapshot& snapshot) {
  SchedulerFigures figures;
  std::set<std::string> spares;
  snapshot.jobs.ForEachAfter("", [&](const v1::JobRecord& job) {
    figures.pending_jobs += job.state() == v1::Job::QUEUED ? 1 : 0;
    if (job.state() == v1::Job::QUEUED || IsTerminal(job.state())) return true;
    spares.insert(job.layout().spares().begin(), job.layout().spares().end());
    return true;
  });
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    ++figures.nodes[node.shown.state()];
    figures.devices += node.shown.devices();
    figures.free_devices += node.shown.free();
    return true;
  });
  figures.buffer_free = static_cast<int64_t>(snapshot.buffer->free.size());
  figures.buffer_lent = static_cast<int64_t>(snapshot.buffer->lent.size());
  figures.buffer_missing = snapshot.buffer->missing;
  AddSupply(snapshot, spares, figures);
  return figures;
}

}  // namespace strata::controller
