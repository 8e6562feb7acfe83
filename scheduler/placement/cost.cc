// Bytes and predicted time of a given rank map.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/placement/edge_counts.h"
#include "scheduler/placement/placement.h"

namespace strata::scheduler {
namespace {

using planner::Degrees;
using planner::Dimension;
using planner::EdgeTraffic;
using planner::kDimensions;
using topology::Cluster;

// The time of one dimension's traffic at the pace of its slowest edge, both directions at once; in
// an all-to-all a rank sends to its peers one after the other.
double ExposedSeconds(const Cluster& cluster, const EdgeTraffic& edge, const EdgeCounts& counts,
                      int64_t degree) {
  double slowest = 0;
  const double peers =
      edge.pattern == EdgeTraffic::Pattern::kPairs ? static_cast<double>(degree - 1) : 1;
  for (size_t depth = 0; depth < counts.between.size(); ++depth) {
    const bool closes = edge.pattern == EdgeTraffic::Pattern::kRing && edge.closing > 0 &&
                        counts.closing[depth] > 0;
    if (counts.between[depth] == 0 && !closes) continue;
    const topology::Link& link = cluster.LinkAt(static_cast<int>(depth));
    const double share = counts.between[depth] > 0 ? 1 : edge.closing;
    const double bytes = share * std::max(edge.next_bytes, edge.previous_bytes);
    slowest = std::max(
        slowest, peers * bytes / link.bytes_per_second + edge.messages * link.latency_seconds);
  }
  return edge.exposed * slowest;
}

}  // namespace

int64_t Shape::ranks() const {
  // Beyond this no cluster has devices; below it no product of two overflows.
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t product = 1;
  for (const int64_t degree : degrees) product = std::min(kMost, product * std::min(kMost, degree));
  return product;
}

Degrees CoordinatesOf(int64_t rank, const Degrees& degrees, const std::vector<Dimension>& order) {
  Degrees coordinates = {};
  for (const Dimension dimension : order) {
    const int64_t degree = degrees[static_cast<size_t>(dimension)];
    coordinates[static_cast<size_t>(dimension)] = rank % degree;
    rank /= degree;
  }
  return coordinates;
}

Cost CostOf(const Cluster& cluster, const Shape& shape, const RankMapCounts& counts) {
  Cost cost;
  cost.bytes.assign(static_cast<size_t>(cluster.node_depth()) + 1, 0);
  for (int d = 0; d < kDimensions; ++d) {
    const EdgeTraffic& edge = shape.traffic[d];
    if (shape.degrees[d] == 1) continue;
    const EdgeCounts& edges = counts.edges[d];
    const bool pairs = edge.pattern == EdgeTraffic::Pattern::kPairs;
    const double bytes = pairs ? 2 * edge.next_bytes : edge.next_bytes + edge.previous_bytes;
    const double closing = edge.pattern == EdgeTraffic::Pattern::kRing ? bytes * edge.closing : 0;
    for (int depth = 0; depth <= cluster.node_depth(); ++depth) {
      cost.bytes[cluster.AccountedDepth(depth)] +=
          static_cast<double>(edges.between[depth]) * bytes +
          static_cast<double>(edges.closing[depth]) * closing;
    }
    cost.exposed_seconds += ExposedSeconds(cluster, edge, edges, shape.degrees[d]);
  }
  cost.split_pipelines = counts.split_pipelines;
  cost.split_contexts = counts.split_contexts;
  return cost;
}

Cost CostOf(const Cluster& cluster, const Shape& shape, const std::vector<Dimension>& order,
            const std::vector<Device>& ranks) {
  return CostOf(cluster, shape, CountsOf(cluster, shape, order, ranks));
}

}  // namespace strata::scheduler
