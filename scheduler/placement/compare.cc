// A placement's devices in the orders that others would give them.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/rank_order.h"

namespace strata::scheduler {
namespace {

// Cell `order[i]` of the canonical rank map in place i.
std::vector<Device> Reordered(const std::vector<Device>& ranks, int64_t tensor,
                              const std::vector<int>& order) {
  std::vector<Device> found;
  found.reserve(ranks.size());
  for (const int cell : order) {
    const auto at = ranks.begin() + cell * tensor;
    found.insert(found.end(), at, at + tensor);
  }
  return found;
}

}  // namespace

std::vector<Comparison> CompareOrders(const topology::Cluster& cluster, const Shape& shape,
                                      const Placement& placement) {
  const std::vector<planner::Dimension> canonical = CanonicalOrder();
  const std::vector<Device> ranks =
      Renumbered(shape.degrees, placement.ranks, placement.order, canonical);
  const int64_t tensor = shape.degrees[0];
  const auto first = [&](int cell) { return ranks[cell * tensor]; };
  std::vector<int> topology(ranks.size() / tensor);
  std::iota(topology.begin(), topology.end(), 0);
  std::sort(topology.begin(), topology.end(), [&](int a, int b) {
    return std::pair(first(a).node, first(a).device) < std::pair(first(b).node, first(b).device);
  });
  std::vector<int> random = topology;
  for (size_t left = random.size(); left > 1; --left) {  // Fisher–Yates
    constexpr uint64_t kSeed = 1;
    std::swap(random[left - 1], random[common::MixBits(kSeed, left) % left]);
  }
  std::vector<int> hostname = topology;
  std::stable_sort(hostname.begin(), hostname.end(), [&](int a, int b) {
    return cluster.nodes()[first(a).node].name < cluster.nodes()[first(b).node].name;
  });
  std::vector<Comparison> found;
  for (const auto& [name, order] :
       {std::pair("contiguous", std::cref(topology)), std::pair("random", std::cref(random)),
        std::pair("hostname", std::cref(hostname))}) {
    found.push_back(
        {name, CostOf(cluster, shape, canonical, Reordered(ranks, tensor, order.get()))});
  }
  return found;
}

}  // namespace strata::scheduler
