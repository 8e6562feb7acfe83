#include "scheduler/placement/cells.h"

#include <algorithm>
#include <bit>
#include <set>

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Devices by rail.
std::vector<uint64_t> RailMasks(const Rails& rails) {
  std::vector<uint64_t> masks(rails.chunk, 0);
  for (int device = 0; device < topology::kMostDevices; ++device) {
    if (const int rail = rails.RailOf(device); rail >= 0) masks[rail] |= uint64_t{1} << device;
  }
  return masks;
}

// Takes whole chunks off a node's mask: one device of each rail.
void TakeChunks(int node, const std::vector<uint64_t>& rails, uint64_t& mask,
                std::vector<Device>& chunks) {
  while (mask != 0) {
    uint64_t taken = 0;
    for (const uint64_t rail : rails) {
      if ((mask & rail) == 0) return;
      const int device = std::countr_zero(mask & rail);
      taken |= uint64_t{1} << device;
      chunks.push_back({node, device});
    }
    mask &= ~taken;
  }
}

class Former {
 public:
  Former(const Cluster& cluster, const std::vector<uint64_t>& free, const Rails& rails)
      : cluster_(cluster), free_(free), rails_(rails), masks_(RailMasks(rails)) {
    cells_.rails = rails;
  }

  Cells OnNodes() {
    const int nodes = static_cast<int>(free_.size());
    cells_.first.reserve(nodes + 1);
    for (int node = 0; node < nodes; ++node) {
      cells_.first.push_back(static_cast<int>(cells_.devices.size()) / rails_.tensor);
      uint64_t mask = free_[node];
      TakeWhole(node, mask);
    }
    cells_.first.push_back(static_cast<int>(cells_.devices.size()) / rails_.tensor);
    return std::move(cells_);
  }

  Cells InDomains() {
    const int nodes = static_cast<int>(free_.size());
    for (int node = 0; node < nodes;) {
      const int end = cluster_.groups()[cluster_.GroupOf(node, cluster_.domain_depth())].end_node;
      FormDomain(node, end);
      node = end;
    }
    // Cells of a domain in the order of their first nodes, to be found by node.
    const int count = static_cast<int>(cells_.devices.size()) / rails_.tensor;
    cells_.first.assign(nodes + 1, 0);
    for (int i = 0; i < count; ++i) ++cells_.first[cells_.devices[i * rails_.tensor].node + 1];
    for (int node = 0; node < nodes; ++node) cells_.first[node + 1] += cells_.first[node];
    return std::move(cells_);
  }

 private:
  void TakeWhole(int node, uint64_t& mask) {
    const size_t before = cells_.devices.size();
    TakeChunks(node, masks_, mask, cells_.devices);
    const size_t whole = (cells_.devices.size() - before) / rails_.tensor * rails_.tensor;
    cells_.devices.resize(before + whole);
  }

  // Whole chunks of the domain's nodes, then chunks made of what is left piece by piece;
  // consecutive chunks make a cell.
  void FormDomain(int first, int end) {
    std::vector<Device> chunks;
    const int piece = rails_.piece;
    std::vector<std::vector<Device>> left(rails_.chunk / piece);  // pieces of the same rails
    for (int node = first; node < end; ++node) {
      uint64_t mask = free_[node];
      const size_t before = chunks.size();
      TakeChunks(node, masks_, mask, chunks);
      chunks.resize(before + (chunks.size() - before) / rails_.chunk * rails_.chunk);
      for (size_t i = 0; i < left.size(); ++i) {
        const auto rails = masks_.begin() + static_cast<ptrdiff_t>(i) * piece;
        TakeChunks(node, {rails, rails + piece}, mask, left[i]);
        left[i].resize(left[i].size() / piece * piece);
      }
    }
    size_t more = left[0].size();
    for (const std::vector<Device>& pieces : left) more = std::min(more, pieces.size());
    for (size_t at = 0; at < more; at += piece) {
      for (const std::vector<Device>& pieces : left) {
        const auto begin = pieces.begin() + static_cast<ptrdiff_t>(at);
        chunks.insert(chunks.end(), begin, begin + piece);
      }
    }
    SortIntoCells(chunks);
  }

  void SortIntoCells(const std::vector<Device>& chunks) {
    const int count = static_cast<int>(chunks.size()) / rails_.tensor;
    std::vector<int> order(count);
    for (int i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return chunks[a * rails_.tensor].node < chunks[b * rails_.tensor].node;
    });
    for (const int cell : order) {
      const auto at = chunks.begin() + static_cast<ptrdiff_t>(cell) * rails_.tensor;
      cells_.devices.insert(cells_.devices.end(), at, at + rails_.tensor);
    }
  }

  const Cluster& cluster_;
  const std::vector<uint64_t>& free_;
  const Rails rails_;
  const std::vector<uint64_t> masks_;  // by rail
  Cells cells_;
};

}  // namespace

std::vector<Rails> RailsToTry(const Cluster& cluster, const std::string& kind, int64_t tensor) {
  const int degree = static_cast<int>(tensor);
  int largest = 0;      // devices of a node of this kind
  bool shared = false;  // a domain has more than one node
  for (const topology::Group& group : cluster.groups()) {
    shared |= group.depth == cluster.domain_depth() && group.end_node - group.first_node > 1;
  }
  for (const topology::Node& node : cluster.nodes()) {
    if (node.kind == kind) largest = std::max(largest, node.devices);
  }
  std::vector<Rails> found;
  if (degree <= largest) found.push_back({degree, degree, 0, false});
  // Other rails are no gain where a domain has one node and that no two devices on one rail.
  if (degree == 1 || (!shared && largest <= degree)) return found;
  for (int chunk = std::min(degree, largest); chunk >= 1; --chunk) {
    if (degree % chunk != 0 || (chunk == degree && !shared)) continue;
    for (int first = 0; first + chunk <= std::min(degree, largest); first += chunk) {
      found.push_back({degree, chunk, first, true});
    }
  }
  return found;
}

Cells FormCells(const Cluster& cluster, const std::vector<uint64_t>& free, const Rails& rails) {
  Former former(cluster, free, rails);
  return rails.spans ? former.InDomains() : former.OnNodes();
}

std::vector<uint64_t> FreeOfKind(const Cluster& cluster, const Occupancy& occupancy,
                                 const std::string& kind) {
  std::vector<uint64_t> free(occupancy.free);
  for (size_t node = 0; node < free.size(); ++node) {
    if (cluster.nodes()[node].kind != kind) free[node] = 0;
  }
  return free;
}

std::vector<std::string> KindsFor(const Cluster& cluster, const std::string& device) {
  if (device != "gpu") return {device};
  std::set<std::string> kinds;
  for (const topology::Node& node : cluster.nodes()) {
    if (node.kind != "cpu") kinds.insert(node.kind);
  }
  return {kinds.begin(), kinds.end()};
}

}  // namespace strata::scheduler
