#include "scheduler/queue/buffer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "scheduler/queue/board.h"

namespace strata::scheduler {
namespace {

// Of the groups of a level; -1: there is none of that name.
int DepthOf(const topology::Cluster& cluster, const std::string& level) {
  if (level == kWholeCluster) return 0;
  const auto& levels = cluster.levels();
  const auto found = std::find(levels.begin(), levels.end(), level);
  return found == levels.end() ? -1 : static_cast<int>(found - levels.begin()) + 1;
}

bool IsWhole(const topology::Cluster& cluster, int node, uint64_t devices) {
  return cluster.nodes()[node].healthy && std::popcount(devices) == cluster.nodes()[node].devices;
}

}  // namespace

Buffer::Buffer(const topology::Cluster* cluster, const std::optional<BufferPolicy>& asked)
    : cluster_(cluster) {
  if (!asked.has_value()) return;
  const BufferPolicy& policy = *asked;
  const int depth = DepthOf(*cluster_, policy.level);
  if (depth < 0) return;
  std::map<std::pair<int, std::string>, Part> parts;  // by group and kind
  for (size_t n = 0; n < cluster_->nodes().size(); ++n) {
    const int node = static_cast<int>(n);
    parts[{cluster_->GroupOf(node, depth), cluster_->nodes()[n].kind}].nodes.push_back(node);
  }
  for (auto& [key, part] : parts) {
    const auto nodes = static_cast<double>(part.nodes.size());
    // 2 % of 50 nodes is one, whatever the rounding of 0.02.
    const auto share = static_cast<int64_t>(std::ceil(policy.fraction * nodes - 1e-9));
    part.held_back = std::min<int64_t>(std::max(policy.nodes, share), part.nodes.size());
    if (part.held_back > 0) parts_.push_back(std::move(part));
  }
}

std::vector<int> Buffer::HeldBack(const Part& part, const Occupancy& room) {
  std::vector<int> nodes;
  for (const int node : part.nodes) {
    if (room.free[node] != 0) nodes.push_back(node);
  }
  if (static_cast<int64_t>(nodes.size()) > part.held_back) {
    std::nth_element(nodes.begin(), nodes.begin() + part.held_back - 1, nodes.end(),
                     [&](int a, int b) {
                       return std::tuple(std::popcount(room.free[a]), a) >
                              std::tuple(std::popcount(room.free[b]), b);
                     });
    nodes.resize(part.held_back);
  }
  return nodes;
}

Occupancy Buffer::Without(const Occupancy& room) const {
  Occupancy rest = room;
  for (const Part& part : parts_) {
    for (const int node : HeldBack(part, room)) rest.free[node] = 0;
  }
  return rest;
}

BufferNodes Buffer::NodesOf(const Occupancy& room, const Occupancy& lendable) const {
  BufferNodes found;
  for (const Part& part : parts_) {
    int64_t left = part.held_back;
    for (const int node : HeldBack(part, room)) {
      if (!IsWhole(*cluster_, node, room.free[node])) continue;
      found.free.push_back(node);
      --left;
    }
    for (auto node = part.nodes.rbegin(); node != part.nodes.rend() && left > 0; ++node) {
      const bool lent = (lendable.free[*node] & ~room.free[*node]) != 0;
      if (!lent || !IsWhole(*cluster_, *node, room.free[*node] | lendable.free[*node])) continue;
      found.lent.push_back(*node);
      --left;
    }
    found.missing += left;
  }
  std::sort(found.free.begin(), found.free.end());
  std::sort(found.lent.begin(), found.lent.end());
  return found;
}

bool IsPreemptible(const Policy& policy, const JobView& job) {
  if (job.preemptible) return true;
  const auto queue = policy.queues.find(job.queue);
  return queue != policy.queues.end() && queue->second.preemptible;
}

BufferNodes BufferOf(const View& view) { return Board(view).BufferNow(); }

Occupancy WithoutBuffer(const topology::Cluster& cluster, const BufferPolicy& policy,
                        const Occupancy& room) {
  return Buffer(&cluster, policy).Without(room);
}

}  // namespace strata::scheduler
