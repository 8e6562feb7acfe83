// Why the runs of a job's topology cannot be placed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/placement/cells.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/runs.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Runs of the level that the occupancy holds, on the kind and the rails that give most.
int64_t RunsHeld(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
                 const std::vector<RunLevel>& levels, size_t level) {
  const Grid grid = GridOf(shape);
  int64_t most = 0;
  for (const std::string& kind : KindsFor(cluster, shape.device)) {
    const std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, kind);
    for (const Rails& rails : RailsToTry(cluster, kind, shape.degrees[0])) {
      const Cells cells = FormCells(cluster, free, WithPieces(cluster, shape, rails));
      const RunPacker packer(cluster, levels, grid, cells, {}, nullptr);
      most = std::max<int64_t>(most, packer.Capacity(level));
    }
  }
  return most;
}

std::string RunsText(int64_t count, int64_t ranks, const std::string& level) {
  return absl::StrCat(count, count == 1 ? " run of " : " runs of ", ranks, " ranks",
                      count == 1 ? " inside one " : ", each inside one ", level);
}

}  // namespace

Refusal WhyNotInRuns(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape) {
  Refusal refusal;
  for (const TopologyConstraint& constraint : shape.topology) {
    if (constraint.preferred || DepthOfLevel(cluster, constraint.within) >= 0) continue;
    refusal.infeasible = true;
    refusal.reason = absl::StrCat("its ranks are to lie within one ", constraint.within,
                                  " each, and the topology has no such level (it has ",
                                  absl::StrJoin(cluster.levels(), ", "), " and node)");
    return refusal;
  }
  const auto levels = RunLevelsOf(cluster, shape);
  if (!levels.has_value()) {
    refusal.infeasible = true;
    refusal.reason = "the runs of resources.topology do not divide its ranks, or one another";
    return refusal;
  }
  const int64_t cells = shape.ranks() / shape.degrees[0];
  const Occupancy ideal = Occupancy::Ideal(cluster);
  for (size_t level = levels->size() - 1; level-- > 0;) {
    const RunLevel& run = (*levels)[level];
    const std::string within = cluster.DepthName(run.depth);
    const int64_t needed = cells / run.cells, ranks = run.cells * shape.degrees[0];
    const int64_t most = RunsHeld(cluster, ideal, shape, *levels, level);
    const int64_t now = RunsHeld(cluster, occupancy, shape, *levels, level);
    if (now >= needed) continue;
    refusal.infeasible = most < needed;
    refusal.reason = absl::StrCat("needs ", RunsText(needed, ranks, within), "; ");
    if (refusal.infeasible) {
      absl::StrAppend(&refusal.reason, "the whole cluster holds ", most,
                      ", even with every node healthy and free");
    } else {
      absl::StrAppend(&refusal.reason, "what is free holds ", now);
      refusal.starts_when = absl::StrCat("starts when there is room for ",
                                         RunsText(needed - now, ranks, within), ", more than now");
    }
    return refusal;
  }
  refusal.infeasible = !Place(cluster, ideal, shape).has_value();
  refusal.reason = "the runs of its resources.topology fit nowhere together";
  if (!refusal.infeasible) refusal.starts_when = "starts when more devices are free together";
  return refusal;
}

}  // namespace strata::scheduler
