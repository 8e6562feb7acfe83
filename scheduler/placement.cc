#include "scheduler/placement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "scheduler/assignment.h"
#include "scheduler/cells.h"
#include "scheduler/grid.h"
#include "scheduler/spares.h"

namespace strata::scheduler {
namespace {

using planner::Dimension;
using topology::Cluster;

std::vector<Dimension> CanonicalOrder() {
  return {planner::kAllDimensions.begin(), planner::kAllDimensions.end()};
}

// Devices of the cells that the grid's cells got, numbered in canonical order.
std::vector<Device> RanksOf(const Cells& cells, const std::vector<int>& node_of) {
  const int tensor = cells.rails.tensor;
  std::vector<int> next(cells.first.begin(), cells.first.end() - 1);
  std::vector<Device> ranks;
  ranks.reserve(node_of.size() * tensor);
  for (const int node : node_of) {
    const auto at = cells.devices.begin() + static_cast<ptrdiff_t>(next[node]++) * tensor;
    ranks.insert(ranks.end(), at, at + tensor);
  }
  return ranks;
}

}  // namespace

Occupancy Occupancy::Now(const Cluster& cluster) {
  Occupancy occupancy;
  for (const topology::Node& node : cluster.nodes()) {
    uint64_t mask = 0;
    if (node.healthy) {
      for (const int device : node.free) mask |= uint64_t{1} << device;
    }
    occupancy.free.push_back(mask);
  }
  return occupancy;
}

Occupancy Occupancy::Ideal(const Cluster& cluster) {
  Occupancy occupancy;
  for (const topology::Node& node : cluster.nodes()) {
    occupancy.free.push_back(node.devices == 64 ? ~uint64_t{0} : (uint64_t{1} << node.devices) - 1);
  }
  return occupancy;
}

bool Better(const Cost& a, const Cost& b) {
  if (a.split_pipelines != b.split_pipelines) return a.split_pipelines < b.split_pipelines;
  if (a.split_contexts != b.split_contexts) return a.split_contexts < b.split_contexts;
  const double whole = std::accumulate(a.bytes.begin(), a.bytes.end(), 0.0);
  for (size_t depth = 0; depth < a.bytes.size(); ++depth) {
    if (std::abs(a.bytes[depth] - b.bytes[depth]) > 1e-9 * whole) {
      return a.bytes[depth] < b.bytes[depth];
    }
  }
  return a.exposed_seconds < b.exposed_seconds * (1 - 1e-9);
}

std::optional<Placement> Place(const Cluster& cluster, const Occupancy& occupancy,
                               const Shape& shape) {
  std::optional<Placement> best;
  const int64_t needed = shape.ranks();
  for (const std::string& kind : KindsFor(cluster, shape.device)) {
    const std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, kind);
    int64_t devices = 0;
    for (const uint64_t mask : free) devices += std::popcount(mask);
    if (devices < needed) continue;
    const Grid grid = GridOf(shape);
    for (const Rails& rails : RailsToTry(cluster, kind, shape.degrees[0])) {
      const Cells cells = FormCells(cluster, free, rails);
      if (cells.count() < grid.cells) continue;
      Placement placement;
      placement.order = CanonicalOrder();
      placement.kind = kind;
      placement.ranks = RanksOf(cells, AssignTopDown(cluster, cells, grid));
      placement.cost = CostOf(cluster, shape, placement.order, placement.ranks);
      if (!best || Better(placement.cost, best->cost)) best = std::move(placement);
      if (rails.spans) break;
    }
  }
  if (best) ChooseSpares(cluster, occupancy, shape, *best);
  return best;
}

}  // namespace strata::scheduler
