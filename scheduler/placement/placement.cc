#include "scheduler/placement/placement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "scheduler/placement/assignment.h"
#include "scheduler/placement/cells.h"
#include "scheduler/placement/edge_counts.h"
#include "scheduler/placement/exact.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/improve.h"
#include "scheduler/placement/rank_order.h"
#include "scheduler/placement/runs.h"
#include "scheduler/placement/spares.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

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

// Canonically numbered.
struct Found {
  std::vector<Device> ranks;
  RankMapCounts counts;
  Cost cost;
};

// On devices of one kind.
class Placer {
 public:
  Placer(const Cluster& cluster, const std::vector<uint64_t>& free, const Shape& shape)
      : cluster_(cluster), free_(free), shape_(shape), grid_(GridOf(shape)) {}

  // On the first rails, in order of preference, that give enough cells. Rails with equal chunks are
  // as good as each other.
  std::optional<Found> Best(const std::vector<Rails>& all) {
    std::optional<Found> best;
    int chunk = 0;
    int cells_before = -1;  // with whole cells on nodes
    for (const Rails& rails : all) {
      if (best && rails.chunk != chunk) break;
      const Cells cells = FormCells(cluster_, free_, WithPieces(cluster_, shape_, rails));
      if (!rails.spans) cells_before = cells.count();
      if (cells.count() < grid_.cells) continue;
      if (!shape_.topology.empty()) {
        std::optional<Found> found = InRuns(cells);
        if (found && (!best || Better(found->cost, best->cost))) best = std::move(found);
        if (best) chunk = rails.chunk;
        continue;
      }
      // Cells over several nodes are no gain where large jobs have as many cells without them.
      if (best && cells.count() == cells_before && grid_.cells > kMostExactCells) continue;
      Found found = OnCells(cells);
      chunk = rails.chunk;
      if (!best || Better(found.cost, best->cost)) best = std::move(found);
    }
    if (best || shape_.degrees[0] == 1) return best;
    const Cells uneven = FormUnevenCells(cluster_, free_, shape_.degrees[0], grid_.cells);
    if (uneven.count() < grid_.cells) return std::nullopt;
    return shape_.topology.empty() ? OnCells(uneven) : InRuns(uneven);
  }

 private:
  // As without constraints where that obeys them; else run by run.
  std::optional<Found> InRuns(const Cells& cells) const {
    Found found = OnCells(cells);
    if (ObeysAll(cluster_, shape_, found.ranks)) return found;
    std::optional<Found> best;
    if (const auto levels = RunLevelsOf(cluster_, shape_); levels.has_value()) {
      RunPacker packer(cluster_, *levels, grid_, cells, std::vector<int>(grid_.cells, -1), nullptr);
      if (packer.Run()) {
        found.ranks = RanksOf(cells, packer.node_of());
        if (ObeysAll(cluster_, shape_, found.ranks)) best = found;
      }
    }
    constexpr int kMostNodes = 64;
    constexpr int64_t kBudget = 40000;
    if (grid_.cells <= kMostExactCells && cells.rails.chunk > 0 &&
        cluster_.nodes().size() <= kMostNodes) {
      auto exact =
          SearchExactly(cluster_, free_, cells.rails, shape_,
                        best ? best->ranks : std::vector<Device>(), cluster_.groups()[0], kBudget);
      if (exact) (best ? *best : best.emplace()).ranks = *std::move(exact);
    }
    if (best) Count(*best);
    return best;
  }

  static constexpr int kMostExactCells = 10;
  static constexpr int kMostImprovedCells = 128;

  Found OnCells(const Cells& cells) const {
    std::vector<int> node_of = AssignTopDown(cluster_, cells, grid_);
    Found found = OnNodes(cells, node_of);
    // Among irregular leftovers the plain order of the tree may happen to be the better one.
    const int most_rounds = grid_.cells <= kMostImprovedCells ? 8 : 1;
    bool better = true;
    for (int round = 0; better && round < most_rounds; ++round) {
      SortByNode(node_of);
      Found plain = OnNodes(cells, node_of);
      better = Better(plain.cost, found.cost);
      if (better) found = std::move(plain);
    }
    if (grid_.cells > kMostExactCells || cells.rails.chunk == 0) return found;
    SearchFrom(cells.rails, found.ranks);
    Count(found);
    // The search may form other cells, and stop for its budget before it has tried their plain
    // order.
    Found plain = {.ranks = Reordered(found.ranks, shape_.degrees[0],
                                      CellsInTreeOrder(found.ranks, shape_.degrees[0]))};
    Count(plain);
    return shape_.topology.empty() && Better(plain.cost, found.cost) ? plain : found;
  }

  void SortByNode(std::vector<int>& node_of) const {
    std::vector<int> cells(cluster_.nodes().size(), 0);
    for (const int node : node_of) ++cells[node];
    auto next = node_of.begin();
    for (size_t node = 0; node < cells.size(); ++node) {
      next = std::fill_n(next, cells[node], static_cast<int>(node));
    }
  }

  Found OnNodes(const Cells& cells, std::vector<int>& node_of) const {
    if (grid_.cells <= kMostImprovedCells) {
      constexpr int64_t kExchanges = 5000;
      Improve(cluster_, cells, grid_, kExchanges, node_of);
    }
    Found found = {.ranks = RanksOf(cells, node_of)};
    Count(found);
    return found;
  }

  void Count(Found& found) const {
    found.counts = CountsOf(cluster_, shape_, CanonicalOrder(), found.ranks);
    found.cost = CostOf(cluster_, shape_, found.counts);
  }

  // Exactly over the whole of a small cluster; over the smallest group that holds the job, and
  // others like it, of a large one.
  void SearchFrom(const Rails& rails, std::vector<Device>& ranks) const {
    constexpr int64_t kBudget = 40000;
    constexpr int kMostNodes = 64;
    constexpr int kMostGroups = 4;
    int depth = cluster_.node_depth();
    for (const Device& device : ranks) {
      depth = std::min(depth, cluster_.MeetingDepth(ranks[0].node, device.node));
    }
    if (cluster_.AccountedDepth(depth) == cluster_.AccountedDepth(cluster_.node_depth())) return;
    if (cluster_.nodes().size() <= kMostNodes) depth = 0;
    std::vector<const topology::Group*> groups;
    for (const topology::Group& group : cluster_.groups()) {
      if (group.depth == depth && group.end_node - group.first_node <= kMostNodes) {
        groups.push_back(&group);
      }
    }
    const auto own = [&](const topology::Group* group) {
      return group->first_node <= ranks[0].node && ranks[0].node < group->end_node;
    };
    std::stable_partition(groups.begin(), groups.end(), own);
    if (groups.size() > kMostGroups) groups.resize(kMostGroups);
    for (const topology::Group* group : groups) {
      std::optional<std::vector<Device>> found =
          SearchExactly(cluster_, free_, rails, shape_, ranks, *group,
                        kBudget / static_cast<int64_t>(groups.size()));
      if (found) ranks = *std::move(found);
    }
  }

  const Cluster& cluster_;
  const std::vector<uint64_t>& free_;
  const Shape& shape_;
  const Grid grid_;
};

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

namespace {

// All constraints of the shape are to be obeyed.
std::optional<Placement> PlaceStrictly(const Cluster& cluster, const Occupancy& occupancy,
                                       const Shape& shape, bool canonical) {
  std::optional<Found> best;
  std::string best_kind;
  const int64_t needed = shape.ranks();
  for (const std::string& kind : KindsFor(cluster, shape.device)) {
    const std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, kind);
    int64_t devices = 0;
    for (const uint64_t mask : free) devices += std::popcount(mask);
    if (devices < needed) continue;
    Placer placer(cluster, free, shape);
    std::optional<Found> found = placer.Best(RailsToTry(cluster, kind, shape.degrees[0]));
    if (!found || (best && !Better(found->cost, best->cost))) continue;
    best = std::move(found);
    best_kind = kind;
  }
  if (!best) return std::nullopt;
  Placement placement;
  placement.kind = best_kind;
  placement.order = canonical ? CanonicalOrder() : OrderOf(shape, best->counts);
  placement.ranks =
      Renumbered(shape.degrees, std::move(best->ranks), CanonicalOrder(), placement.order);
  placement.cost = std::move(best->cost);
  ChooseSpares(cluster, occupancy, shape, placement);
  return placement;
}

}  // namespace

std::optional<Placement> Place(const Cluster& cluster, const Occupancy& occupancy,
                               const Shape& shape) {
  if (shape.topology.empty()) return PlaceStrictly(cluster, occupancy, shape, false);
  Shape strict = shape;
  for (;;) {
    std::vector<TopologyConstraint> asked = std::exchange(strict.topology, {});
    for (TopologyConstraint constraint : asked) {
      constraint.preferred = false;
      strict.topology.push_back(std::move(constraint));
    }
    if (auto placement = PlaceStrictly(cluster, occupancy, strict, true)) return placement;
    const auto last = std::find_if(asked.rbegin(), asked.rend(),
                                   [](const auto& constraint) { return constraint.preferred; });
    if (last == asked.rend()) return std::nullopt;
    asked.erase(std::next(last).base());
    strict.topology = std::move(asked);
  }
}

}  // namespace strata::scheduler
