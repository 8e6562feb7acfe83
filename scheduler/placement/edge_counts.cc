#include "scheduler/placement/edge_counts.h"

#include <algorithm>

namespace strata::scheduler {

using planner::Dimension;
using planner::EdgeTraffic;

EdgeCounter::EdgeCounter(const topology::Cluster& cluster, const Shape& shape,
                         const std::vector<Dimension>& order, const std::vector<Device>& ranks)
    : cluster_(cluster), shape_(shape), ranks_(ranks), meet_(cluster, ranks) {
  int64_t stride = 1;
  for (const Dimension dimension : order) {
    stride_[static_cast<size_t>(dimension)] = stride;
    stride *= shape.degrees[static_cast<size_t>(dimension)];
  }
}

EdgeCounts EdgeCounter::Count(Dimension of) const {
  const auto dimension = static_cast<size_t>(of);
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

int64_t EdgeCounter::CountSplit(Dimension dimension) const {
  const auto count = static_cast<int64_t>(ranks_.size());
  const auto d = static_cast<size_t>(dimension);
  const int64_t tensor = shape_.degrees[0];
  const int64_t tensor_stride = stride_[0];
  if (shape_.degrees[d] == 1) return 0;
  int64_t split = 0;
  for (int64_t rank = 0; rank < count; ++rank) {
    if (rank / tensor_stride % tensor != 0 || rank / stride_[d] % shape_.degrees[d] != 0) continue;
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

}  // namespace strata::scheduler
