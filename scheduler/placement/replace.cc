// New devices for lost ranks, near those that stay.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/rank_order.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// What a choice of a node for some cells costs, in the order of placement.h; smaller is better.
struct Price {
  int64_t split_pipelines = 0;
  int64_t split_contexts = 0;
  bool not_preferred = false;
  std::vector<int64_t> bytes;  // to cells that have a node, by the depth at which they meet

  friend bool operator<(const Price& a, const Price& b) {
    return std::tie(a.split_pipelines, a.split_contexts, a.not_preferred, a.bytes) <
           std::tie(b.split_pipelines, b.split_contexts, b.not_preferred, b.bytes);
  }
};

// For one choice of rails.
class Replacer {
 public:
  Replacer(const Cluster& cluster, const Shape& shape, const Placement& old,
           std::vector<uint64_t> free, const Rails& rails, const std::vector<int>& prefer)
      : cluster_(cluster),
        grid_(GridOf(shape)),
        rails_(rails),
        free_(std::move(free)),
        preferred_(cluster.nodes().size(), 0),
        ranks_(Renumbered(shape.degrees, old.ranks, old.order, CanonicalOrder())) {
    for (const int node : prefer) preferred_[node] = 1;
  }

  // Canonically numbered, or empty: it cannot be done on these rails.
  std::vector<Device> Run() {
    if (!KeptRanksAreOnTheirRails()) return {};
    RepairBrokenCells();
    std::vector<int> lost;
    node_of_.assign(grid_.cells, -1);
    for (int cell = 0; cell < grid_.cells; ++cell) {
      node_of_[cell] = ranks_[First(cell)].node;
      if (node_of_[cell] < 0) lost.push_back(cell);
    }
    cells_ = FormCells(cluster_, free_, rails_);
    if (cells_.count() < static_cast<int>(lost.size())) return {};
    used_.assign(cluster_.nodes().size(), 0);
    PlaceInBatches(lost);
    return std::move(ranks_);
  }

 private:
  size_t First(int cell) const { return static_cast<size_t>(cell) * rails_.tensor; }

  bool KeptRanksAreOnTheirRails() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].node < 0) continue;
      const int t = static_cast<int>(rank) % rails_.tensor;
      if (rails_.RailOf(ranks_[rank].device) != t % rails_.chunk) return false;
      // Rails of whole cells on nodes cannot complete a cell that lies on several.
      const int node = ranks_[rank - t].node;
      if (!rails_.spans && node >= 0 && node != ranks_[rank].node) return false;
    }
    return true;
  }

  // Cells that lost some of their devices get others of the same node, then of the same domain;
  // where there are none the whole cell moves.
  void RepairBrokenCells() {
    for (int cell = 0; cell < grid_.cells; ++cell) {
      int kept = -1;
      bool broken = false;
      for (int t = 0; t < rails_.tensor; ++t) {
        const int node = ranks_[First(cell) + t].node;
        if (node >= 0) kept = node;
        broken |= node < 0;
      }
      if (broken && kept >= 0 && !Repair(cell, kept)) Lose(cell);
    }
  }

  bool Repair(int cell, int kept) {
    const topology::Group& domain =
        cluster_.groups()[cluster_.GroupOf(kept, cluster_.domain_depth())];
    std::vector<int> nodes = {kept};
    if (rails_.spans) {
      for (int node = domain.first_node; node < domain.end_node; ++node) {
        if (node != kept) nodes.push_back(node);
      }
      std::stable_sort(nodes.begin() + 1, nodes.end(),
                       [&](int a, int b) { return preferred_[a] > preferred_[b]; });
    }
    const std::vector<uint64_t> before(free_.begin() + domain.first_node,
                                       free_.begin() + domain.end_node);
    std::vector<std::pair<size_t, Device>> found;
    for (int t = 0; t < rails_.tensor; ++t) {
      if (ranks_[First(cell) + t].node >= 0) continue;
      const Device device = TakeFromRail(nodes, t % rails_.chunk);
      if (device.node < 0) {
        std::copy(before.begin(), before.end(), free_.begin() + domain.first_node);
        return false;
      }
      found.push_back({First(cell) + t, device});
    }
    for (const auto& [rank, device] : found) ranks_[rank] = device;
    return true;
  }

  Device TakeFromRail(const std::vector<int>& nodes, int rail) {
    for (const int node : nodes) {
      for (uint64_t mask = free_[node]; mask != 0; mask &= mask - 1) {
        const int device = std::countr_zero(mask);
        if (rails_.RailOf(device) != rail) continue;
        free_[node] &= ~(uint64_t{1} << device);
        return {node, device};
      }
    }
    return {};
  }

  void Lose(int cell) {
    for (int t = 0; t < rails_.tensor; ++t) {
      Device& device = ranks_[First(cell) + t];
      if (device.node >= 0) free_[device.node] |= uint64_t{1} << device.device;
      device = {};
    }
  }

  int Left(int node) const { return cells_.first[node + 1] - cells_.first[node] - used_[node]; }

  // As many consecutive lost cells together as a node can hold: they were together before.
  void PlaceInBatches(const std::vector<int>& lost) {
    for (size_t at = 0; at < lost.size();) {
      int largest = 0;
      for (size_t node = 0; node < used_.size(); ++node) {
        largest = std::max(largest, Left(static_cast<int>(node)));
      }
      const size_t size = std::min(lost.size() - at, static_cast<size_t>(largest));
      const std::vector<int> batch(lost.begin() + static_cast<ptrdiff_t>(at),
                                   lost.begin() + static_cast<ptrdiff_t>(at + size));
      Take(batch, BestNode(batch));
      at += size;
    }
  }

  int BestNode(const std::vector<int>& batch) const {
    int best = -1;
    Price least;
    for (size_t i = 0; i < used_.size(); ++i) {
      const int node = static_cast<int>(i);
      if (Left(node) < static_cast<int>(batch.size())) continue;
      Price price = PriceOf(batch, node);
      if (best >= 0 && !(price < least)) continue;
      least = std::move(price);
      best = node;
    }
    return best;
  }

  Price PriceOf(const std::vector<int>& batch, int node) const {
    Price price;
    price.not_preferred = !preferred_[node];
    price.bytes.assign(static_cast<size_t>(cluster_.node_depth()) + 1, 0);
    for (const int cell : batch) {
      grid_.ForEachNeighbour(cell, [&](int other, int64_t bytes) {
        if (node_of_[other] < 0) return;
        const int depth = cluster_.MeetingDepth(node, node_of_[other]);
        price.bytes[cluster_.AccountedDepth(depth)] += bytes;
      });
      price.split_pipelines += WouldSplit(cell, kPipelineAxis, node);
      price.split_contexts += WouldSplit(cell, kContextAxis, node);
    }
    return price;
  }

  // Whether a group that is whole so far would no longer be.
  bool WouldSplit(int cell, int axis, int node) const {
    const Axis& of = grid_.axes[axis];
    if (of.degree == 1) return false;
    const int first = cell - grid_.Coordinate(cell, axis) * of.stride;
    const int depth = cluster_.pipeline_depth();
    int zone = -1;
    for (int i = 0; i < of.degree; ++i) {
      const int other = node_of_[first + i * of.stride];
      if (other < 0) continue;
      const int group = cluster_.GroupOf(other, depth);
      if (zone >= 0 && group != zone) return false;  // it is split anyway
      zone = group;
    }
    return zone >= 0 && zone != cluster_.GroupOf(node, depth);
  }

  void Take(const std::vector<int>& batch, int node) {
    for (const int cell : batch) {
      const size_t from = static_cast<size_t>(cells_.first[node] + used_[node]++) * rails_.tensor;
      for (int t = 0; t < rails_.tensor; ++t) ranks_[First(cell) + t] = cells_.devices[from + t];
      node_of_[cell] = node;
    }
  }

  const Cluster& cluster_;
  const Grid grid_;
  const Rails rails_;
  std::vector<uint64_t> free_;
  std::vector<char> preferred_;
  std::vector<Device> ranks_;  // canonically numbered
  Cells cells_;
  std::vector<int> node_of_;  // by cell; of cells on several nodes the first one's
  std::vector<int> used_;     // cells of a node
};

}  // namespace

std::optional<Placement> Replace(const Cluster& cluster, const Occupancy& occupancy,
                                 const Shape& shape, const Placement& old,
                                 const std::vector<int>& prefer) {
  std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, old.kind);
  for (const Device& device : old.ranks) {
    if (device.node >= 0) free[device.node] &= ~(uint64_t{1} << device.device);
  }
  for (const Rails& rails : RailsToTry(cluster, old.kind, shape.degrees[0])) {
    std::vector<Device> ranks = Replacer(cluster, shape, old, free, rails, prefer).Run();
    if (ranks.empty()) continue;
    Placement placement = old;
    placement.ranks = Renumbered(shape.degrees, ranks, CanonicalOrder(), old.order);
    placement.cost = CostOf(cluster, shape, old.order, placement.ranks);
    std::erase_if(placement.spares, [&](int spare) {
      return std::any_of(ranks.begin(), ranks.end(),
                         [&](const Device& device) { return device.node == spare; });
    });
    return placement;
  }
  return std::nullopt;
}

}  // namespace strata::scheduler
