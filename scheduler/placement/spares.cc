#include "scheduler/placement/spares.h"

#include <algorithm>
#include <map>
#include <vector>

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Candidates of one group of the pipeline level, nearest to the job last.
struct Zone {
  int used = 0;  // the job's nodes
  int chosen = 0;
  std::vector<int> nodes;
};

uint64_t WholeMask(const topology::Node& node) {
  return node.devices == topology::kMostDevices ? ~uint64_t{0} : (uint64_t{1} << node.devices) - 1;
}

// The deepest depth at which a node meets one of the job's.
int NearestMeeting(const Cluster& cluster, const std::vector<int>& used_in_group, int node) {
  int depth = cluster.node_depth() - 1;
  while (depth > 0 && used_in_group[cluster.GroupOf(node, depth)] == 0) --depth;
  return depth;
}

}  // namespace

void ChooseSpares(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
                  Placement& placement) {
  placement.spares.clear();
  if (shape.spares <= 0) return;
  const int count = static_cast<int>(cluster.nodes().size());
  std::vector<char> used(count, 0);
  for (const Device& device : placement.ranks) used[device.node] = 1;
  std::vector<int> used_in_group(cluster.groups().size(), 0);
  for (int node = 0; node < count; ++node) {
    if (!used[node]) continue;
    for (int depth = 0; depth < cluster.node_depth(); ++depth) {
      ++used_in_group[cluster.GroupOf(node, depth)];
    }
  }
  std::map<int, Zone> zones;
  std::vector<std::pair<int, int>> ranked;  // by meeting depth, farthest first; then last names
  for (int node = count - 1; node >= 0; --node) {
    const topology::Node& described = cluster.nodes()[node];
    if (used[node] || described.devices == 0 || described.kind != placement.kind ||
        occupancy.free[node] != WholeMask(described)) {
      continue;
    }
    ranked.push_back({NearestMeeting(cluster, used_in_group, node), node});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [depth, node] : ranked) {
    const int group = cluster.GroupOf(node, cluster.pipeline_depth());
    zones[group].used = used_in_group[group];
    zones[group].nodes.push_back(node);
  }
  // One after the other to the zone with the most of the job's nodes per spare (D'Hondt).
  while (static_cast<int64_t>(placement.spares.size()) < shape.spares) {
    Zone* next = nullptr;
    for (auto& [group, zone] : zones) {
      if (zone.nodes.empty()) continue;
      if (next == nullptr || zone.used * (next->chosen + 1) > next->used * (zone.chosen + 1)) {
        next = &zone;
      }
    }
    if (next == nullptr) break;
    placement.spares.push_back(next->nodes.back());
    next->nodes.pop_back();
    ++next->chosen;
  }
}

}  // namespace strata::scheduler
