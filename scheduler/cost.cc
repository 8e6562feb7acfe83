// Bytes and predicted time of a given rank map.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/placement.h"

namespace strata::scheduler {
namespace {

using planner::Degrees;
using planner::Dimension;
using planner::EdgeTraffic;
using planner::kDimensions;
using topology::Cluster;

// Where two nodes meet, from one flat table.
class Meetings {
 public:
  explicit Meetings(const Cluster& cluster, const std::vector<Device>& ranks)
      : depths_(cluster.node_depth()), row_of_(cluster.nodes().size(), -1) {
    for (const Device& device : ranks) {
      if (row_of_[device.node] >= 0) continue;
      row_of_[device.node] = static_cast<int>(rows_.size());
      for (int depth = 0; depth < depths_; ++depth) {
        rows_.push_back(cluster.GroupOf(device.node, depth));
      }
    }
  }
  int DepthOf(int node_a, int node_b) const {
    if (node_a == node_b) return depths_;
    const int* a = &rows_[row_of_[node_a]];
    const int* b = &rows_[row_of_[node_b]];
    int depth = 1;
    while (depth < depths_ && a[depth] == b[depth]) ++depth;
    return depth - 1;
  }

 private:
  int depths_;
  std::vector<int> row_of_;  // by node: into rows_
  std::vector<int> rows_;    // groups of a node, by depth
};

// Edges of one dimension by the depth at which their ends meet.
struct EdgeCounts {
  std::vector<int64_t> between;  // neighbours (kPairs: any two ranks of a group, once)
  std::vector<int64_t> closing;  // the last rank of a ring and its first
};

class Counter {
 public:
  Counter(const Cluster& cluster, const Shape& shape, const std::vector<Dimension>& order,
          const std::vector<Device>& ranks)
      : cluster_(cluster), shape_(shape), order_(order), ranks_(ranks), meet_(cluster, ranks) {
    int64_t stride = 1;
    for (const Dimension dimension : order) {
      stride_[static_cast<size_t>(dimension)] = stride;
      stride *= shape.degrees[static_cast<size_t>(dimension)];
    }
  }

  EdgeCounts Count(int dimension) const {
    const size_t depths = static_cast<size_t>(cluster_.node_depth()) + 1;
    EdgeCounts counts = {std::vector<int64_t>(depths, 0), std::vector<int64_t>(depths, 0)};
    const int64_t degree = shape_.degrees[dimension];
    const int64_t stride = stride_[dimension];
    if (degree == 1) return counts;
    const bool pairs = shape_.traffic[dimension].pattern == EdgeTraffic::Pattern::kPairs;
    const auto count = static_cast<int64_t>(ranks_.size());
    // Groups begin where the dimension's coordinate is 0.
    for (int64_t block = 0; block < count; block += stride * degree) {
      for (int64_t begin = block; begin < block + stride; ++begin) {
        const int64_t end = begin + degree * stride;
        for (int64_t rank = begin; rank < end; rank += stride) {
          const int64_t last = pairs ? end : std::min(end, rank + 2 * stride);
          for (int64_t other = rank + stride; other < last; other += stride) {
            ++counts.between[Depth(rank, other)];
          }
        }
        if (!pairs) ++counts.closing[Depth(begin, end - stride)];
      }
    }
    return counts;
  }

  // Groups along `dimension` of whole tensor groups, that lie across groups of the pipeline level.
  int64_t CountSplit(Dimension dimension) const {
    const auto count = static_cast<int64_t>(ranks_.size());
    const auto d = static_cast<size_t>(dimension);
    const int64_t tensor = shape_.degrees[0];
    const int64_t tensor_stride = stride_[0];
    if (shape_.degrees[d] == 1) return 0;
    int64_t split = 0;
    for (int64_t rank = 0; rank < count; ++rank) {
      if (rank / tensor_stride % tensor != 0 || rank / stride_[d] % shape_.degrees[d] != 0)
        continue;
      const int zone = ZoneOf(rank);
      bool across = false;
      for (int64_t i = 0; i < shape_.degrees[d] && !across; ++i) {
        for (int64_t t = 0; t < tensor && !across; ++t) {
          across = ZoneOf(rank + i * stride_[d] + t * tensor_stride) != zone;
        }
      }
      split += across;
    }
    return split;
  }

 private:
  size_t Depth(int64_t a, int64_t b) const { return meet_.DepthOf(ranks_[a].node, ranks_[b].node); }
  int ZoneOf(int64_t rank) const {
    return cluster_.GroupOf(ranks_[rank].node, cluster_.pipeline_depth());
  }

  const Cluster& cluster_;
  const Shape& shape_;
  const std::vector<Dimension>& order_;
  const std::vector<Device>& ranks_;
  const Meetings meet_;
  std::array<int64_t, kDimensions> stride_ = {};
};

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

Cost CostOf(const Cluster& cluster, const Shape& shape, const std::vector<Dimension>& order,
            const std::vector<Device>& ranks) {
  Cost cost;
  cost.bytes.assign(static_cast<size_t>(cluster.node_depth()) + 1, 0);
  const Counter counter(cluster, shape, order, ranks);
  for (int d = 0; d < kDimensions; ++d) {
    const EdgeTraffic& edge = shape.traffic[d];
    if (shape.degrees[d] == 1) continue;
    const EdgeCounts counts = counter.Count(d);
    const bool pairs = edge.pattern == EdgeTraffic::Pattern::kPairs;
    const double bytes = pairs ? 2 * edge.next_bytes : edge.next_bytes + edge.previous_bytes;
    const double closing = edge.pattern == EdgeTraffic::Pattern::kRing ? bytes * edge.closing : 0;
    for (int depth = 0; depth <= cluster.node_depth(); ++depth) {
      cost.bytes[cluster.AccountedDepth(depth)] +=
          static_cast<double>(counts.between[depth]) * bytes +
          static_cast<double>(counts.closing[depth]) * closing;
    }
    cost.exposed_seconds += ExposedSeconds(cluster, edge, counts, shape.degrees[d]);
  }
  cost.split_pipelines = counter.CountSplit(Dimension::kPipeline);
  cost.split_contexts = counter.CountSplit(Dimension::kContext);
  return cost;
}

}  // namespace strata::scheduler
