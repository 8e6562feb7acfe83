#include "scheduler/placement/rank_order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace strata::scheduler {

using planner::Degrees;
using planner::Dimension;

std::vector<Dimension> CanonicalOrder() {
  return {planner::kAllDimensions.begin(), planner::kAllDimensions.end()};
}

std::vector<Device> Renumbered(const Degrees& degrees, std::vector<Device> ranks,
                               const std::vector<Dimension>& from,
                               const std::vector<Dimension>& to) {
  if (from == to) return ranks;
  std::array<int64_t, planner::kDimensions> stride = {};
  int64_t product = 1;
  for (const Dimension dimension : from) {
    stride[static_cast<size_t>(dimension)] = product;
    product *= degrees[static_cast<size_t>(dimension)];
  }
  // An odometer over the coordinates in the order of `to`.
  std::vector<Device> found;
  found.reserve(ranks.size());
  Degrees at = {};
  int64_t old = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    found.push_back(ranks[old]);
    for (const Dimension dimension : to) {
      const auto d = static_cast<size_t>(dimension);
      old += stride[d];
      if (++at[d] < degrees[d]) break;
      old -= stride[d] * degrees[d];
      at[d] = 0;
    }
  }
  return found;
}

std::vector<int> CellsInTreeOrder(const std::vector<Device>& ranks, int64_t tensor) {
  std::vector<int> cells(ranks.size() / tensor);
  std::iota(cells.begin(), cells.end(), 0);
  const auto first = [&](int cell) {
    const Device& device = ranks[cell * tensor];
    return std::pair(device.node, device.device);
  };
  std::sort(cells.begin(), cells.end(), [&](int a, int b) { return first(a) < first(b); });
  return cells;
}

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

std::vector<Dimension> OrderOf(const Shape& shape, const RankMapCounts& counts) {
  std::vector<Dimension> order = CanonicalOrder();
  struct Spread {
    Dimension dimension;
    std::vector<double> shares;  // of its edges, by depth
  };
  std::vector<Spread> spreads;
  for (const Dimension dimension : order) {
    if (dimension == Dimension::kTensor || shape.degrees[static_cast<size_t>(dimension)] == 1) {
      continue;
    }
    const std::vector<int64_t>& between = counts.edges[static_cast<size_t>(dimension)].between;
    double all = 0;
    for (const int64_t count : between) all += static_cast<double>(count);
    Spread spread = {dimension, {}};
    for (const int64_t count : between) {
      spread.shares.push_back(static_cast<double>(count) / all);
    }
    spreads.push_back(std::move(spread));
  }
  std::stable_sort(spreads.begin(), spreads.end(),
                   [](const Spread& a, const Spread& b) { return a.shares < b.shares; });
  auto next = spreads.begin();
  for (Dimension& dimension : order) {
    if (dimension == Dimension::kTensor || shape.degrees[static_cast<size_t>(dimension)] == 1) {
      continue;
    }
    dimension = next++->dimension;
  }
  return order;
}

}  // namespace strata::scheduler
