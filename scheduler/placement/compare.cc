// A placement's devices in the orders that others would give them.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/rank_order.h"

namespace strata::scheduler {

std::vector<OtherOrder> OtherOrders(const topology::Cluster& cluster, const Shape& shape,
                                    const Placement& placement) {
  const std::vector<planner::Dimension> canonical = CanonicalOrder();
  const std::vector<Device> ranks =
      Renumbered(shape.degrees, placement.ranks, placement.order, canonical);
  const int64_t tensor = shape.degrees[0];
  const std::vector<int> topology = CellsInTreeOrder(ranks, tensor);
  std::vector<int> random = topology;
  for (size_t left = random.size(); left > 1; --left) {  // Fisher–Yates
    constexpr uint64_t kSeed = 1;
    std::swap(random[left - 1], random[common::MixBits(kSeed, left) % left]);
  }
  const auto name = [&](int cell) -> const std::string& {
    return cluster.nodes()[ranks[cell * tensor].node].name;
  };
  std::vector<int> hostname = topology;
  std::stable_sort(hostname.begin(), hostname.end(),
                   [&](int a, int b) { return name(a) < name(b); });
  std::vector<OtherOrder> found;
  for (const auto& [plain, order] :
       {std::pair("contiguous", std::cref(topology)), std::pair("random", std::cref(random)),
        std::pair("hostname", std::cref(hostname))}) {
    found.push_back({plain, canonical, Reordered(ranks, tensor, order.get())});
  }
  return found;
}

std::vector<Comparison> CompareOrders(const topology::Cluster& cluster, const Shape& shape,
                                      const Placement& placement) {
  std::vector<Comparison> found;
  for (OtherOrder& other : OtherOrders(cluster, shape, placement)) {
    found.push_back({std::move(other.name), CostOf(cluster, shape, other.order, other.ranks)});
  }
  return found;
}

}  // namespace strata::scheduler
