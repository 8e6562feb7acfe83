#include "scheduler/placement/brute_force.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata::scheduler {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using topology::Cluster;

// Every way to put ranks, one after the other, on the local index that their tensor coordinate has.
class Enumerator {
 public:
  Enumerator(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape)
      : cluster_(cluster), occupancy_(occupancy), shape_(shape) {
    order_.assign(planner::kAllDimensions.begin(), planner::kAllDimensions.end());
  }

  std::optional<LeastCost> Run() {
    const int64_t tensor = shape_.degrees[0];
    for (int64_t chunk = tensor; chunk >= 1 && !least_; --chunk) {
      if (tensor % chunk != 0) continue;
      for (int64_t first = 0; first + chunk <= tensor; first += chunk) {
        index_of_.clear();
        for (int64_t t = 0; t < tensor; ++t) index_of_.push_back(first + t % chunk);
        nodes_.assign(shape_.ranks(), -1);
        left_.clear();
        LeastCost costs(cluster_.node_depth() + 3, 0);
        Extend(0, costs);
      }
    }
    return least_;
  }

 private:
  // Free devices of a node with a local index modulo the tensor degree, without those taken.
  int& Left(int node, int64_t index) {
    const auto [at, fresh] = left_.emplace(std::pair(node, index), 0);
    if (fresh) {
      for (int device = 0; device < cluster_.nodes()[node].devices; ++device) {
        at->second +=
            (occupancy_.free[node] >> device & 1) != 0 && device % shape_.degrees[0] == index;
      }
    }
    return at->second;
  }

  void Extend(int64_t rank, const LeastCost& costs) {
    if (least_ && !Less(costs, *least_)) return;
    if (rank == shape_.ranks()) {
      least_ = costs;
      return;
    }
    const int64_t t = rank % shape_.degrees[0];
    for (int node = 0; node < static_cast<int>(cluster_.nodes().size()); ++node) {
      if (Left(node, index_of_[t]) == 0) continue;
      const int depth = cluster_.domain_depth();
      if (t > 0 && cluster_.GroupOf(node, depth) != cluster_.GroupOf(nodes_[rank - t], depth)) {
        continue;
      }
      if (LeavesRun(rank, node)) continue;
      --Left(node, index_of_[t]);
      nodes_[rank] = node;
      LeastCost with = costs;
      AddCosts(rank, with);
      Extend(rank + 1, with);
      nodes_[rank] = -1;
      ++Left(node, index_of_[t]);
    }
  }

  // Whether a constraint's run, which began on another node, would leave its group.
  bool LeavesRun(int64_t rank, int node) const {
    for (const TopologyConstraint& constraint : shape_.topology) {
      const int64_t first = rank - rank % constraint.ranks;
      if (constraint.preferred || first == rank) continue;
      int depth = 0;  // at which both have to meet, at least
      while (depth < static_cast<int>(cluster_.levels().size()) &&
             cluster_.levels()[depth] != constraint.within) {
        ++depth;
      }
      if (cluster_.MeetingDepth(nodes_[first], node) < depth + 1) return true;
    }
    return false;
  }

  static bool Less(const LeastCost& a, const LeastCost& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) > 1e-6) return a[i] < b[i];
    }
    return false;
  }

  // Of all edges whose later end is `rank`, and groups whose last rank it is.
  void AddCosts(int64_t rank, LeastCost& costs) const {
    int64_t stride = 1;
    for (size_t d = 0; d < order_.size(); ++d) {
      const int64_t degree = shape_.degrees[d];
      const int64_t at = rank / stride % degree;
      const EdgeTraffic& edge = shape_.traffic[d];
      const auto add = [&](int64_t other, double bytes) {
        const int depth = cluster_.MeetingDepth(nodes_[rank], nodes_[other]);
        costs[2 + cluster_.AccountedDepth(depth)] += bytes;
      };
      if (edge.pattern == EdgeTraffic::Pattern::kPairs) {
        for (int64_t i = 1; i <= at; ++i) add(rank - i * stride, 2 * edge.next_bytes);
      } else if (at > 0) {
        add(rank - stride, edge.next_bytes + edge.previous_bytes);
        if (at + 1 == degree && edge.pattern == EdgeTraffic::Pattern::kRing) {
          add(rank - at * stride, edge.closing * (edge.next_bytes + edge.previous_bytes));
        }
      }
      const bool last = at + 1 == degree && degree > 1 && rank % shape_.degrees[0] == 0;
      if (last && order_[d] == Dimension::kPipeline) costs[0] += Split(rank, stride, degree);
      if (last && order_[d] == Dimension::kContext) costs[1] += Split(rank, stride, degree);
      stride *= degree;
    }
  }

  double Split(int64_t last, int64_t stride, int64_t degree) const {
    std::set<int> zones;
    for (int64_t i = 0; i < degree; ++i) {
      zones.insert(cluster_.GroupOf(nodes_[last - i * stride], cluster_.pipeline_depth()));
    }
    return zones.size() > 1 ? 1 : 0;
  }

  const Cluster& cluster_;
  const Occupancy& occupancy_;
  const Shape& shape_;
  std::vector<Dimension> order_;
  std::vector<int64_t> index_of_;  // by tensor coordinate
  std::map<std::pair<int, int64_t>, int> left_;
  std::vector<int> nodes_;  // by rank
  std::optional<LeastCost> least_;
};

}  // namespace

std::optional<LeastCost> LeastCostOf(const Cluster& cluster, const Occupancy& occupancy,
                                     const Shape& shape) {
  return Enumerator(cluster, occupancy, shape).Run();
}

}  // namespace strata::scheduler
