#include "scheduler/placement/held_ranks.h"

#include <algorithm>
#include <bit>

namespace strata::scheduler {

bool HeldRanks::AreOnRails() const {
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

void HeldRanks::MendCells(const std::vector<char>& preferred) {
  const int cells = static_cast<int>(ranks_.size()) / rails_.tensor;
  for (int cell = 0; cell < cells; ++cell) {
    int kept = -1;
    bool broken = false;
    for (int t = 0; t < rails_.tensor; ++t) {
      const int node = ranks_[First(cell) + t].node;
      if (node >= 0) kept = node;
      broken |= node < 0;
    }
    if (broken && kept >= 0 && !Mend(cell, kept, preferred)) Lose(cell);
  }
}

bool HeldRanks::Mend(int cell, int kept, const std::vector<char>& preferred) {
  const topology::Group& domain =
      cluster_.groups()[cluster_.GroupOf(kept, cluster_.domain_depth())];
  std::vector<int> nodes = {kept};
  if (rails_.spans) {
    for (int node = domain.first_node; node < domain.end_node; ++node) {
      if (node != kept) nodes.push_back(node);
    }
    std::stable_sort(nodes.begin() + 1, nodes.end(),
                     [&](int a, int b) { return preferred[a] > preferred[b]; });
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

Device HeldRanks::TakeFromRail(const std::vector<int>& nodes, int rail) {
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

void HeldRanks::Lose(int cell) {
  for (int t = 0; t < rails_.tensor; ++t) {
    Device& device = ranks_[First(cell) + t];
    if (device.node >= 0) free_[device.node] |= uint64_t{1} << device.device;
    device = {};
  }
}

void HeldRanks::Put(int cell, const Device* devices) {
  for (int t = 0; t < rails_.tensor; ++t) {
    ranks_[First(cell) + t] = devices[t];
    free_[devices[t].node] &= ~(uint64_t{1} << devices[t].device);
  }
}

}  // namespace strata::scheduler
