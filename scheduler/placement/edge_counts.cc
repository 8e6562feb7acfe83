#include "scheduler/placement/edge_counts.h"

#include "scheduler/placement/node_paths.h"

namespace strata::scheduler {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using topology::Cluster;

// Counts by unit: a tensor group where all of them lie on one node each and follow one another, as
// they nearly always do; else a rank.
class Counter {
 public:
  Counter(const Cluster& cluster, const Shape& shape, const std::vector<Dimension>& order,
          const std::vector<Device>& ranks)
      : shape_(shape), depths_(cluster.node_depth()), paths_(cluster) {
    int64_t stride = 1;
    for (const Dimension dimension : order) {
      stride_[static_cast<size_t>(dimension)] = stride;
      stride *= shape.degrees[static_cast<size_t>(dimension)];
    }
    unit_ = stride_[0] == 1 && TensorGroupsAreOnNodes(ranks) ? shape.degrees[0] : 1;
    units_.reserve(ranks.size() / unit_);
    for (size_t rank = 0; rank < ranks.size(); rank += unit_) {
      units_.push_back(paths_.PathOf(ranks[rank].node));
    }
  }

  RankMapCounts Run() const {
    RankMapCounts counts;
    for (const Dimension dimension : planner::kAllDimensions) {
      const auto d = static_cast<size_t>(dimension);
      if (shape_.degrees[d] > 1) counts.edges[d] = Count(d);
    }
    counts.split_pipelines = CountSplit(static_cast<size_t>(Dimension::kPipeline));
    counts.split_contexts = CountSplit(static_cast<size_t>(Dimension::kContext));
    return counts;
  }

 private:
  bool TensorGroupsAreOnNodes(const std::vector<Device>& ranks) const {
    const auto tensor = static_cast<size_t>(shape_.degrees[0]);
    for (size_t rank = 0; rank < ranks.size(); rank += tensor) {
      for (size_t t = 1; t < tensor; ++t) {
        if (ranks[rank + t].node != ranks[rank].node) return false;
      }
    }
    return true;
  }

  int Meeting(int64_t a, int64_t b) const { return paths_.MeetingDepth(units_[a], units_[b]); }
  int ZoneOf(int64_t unit) const { return paths_.ZoneOf(units_[unit]); }

  EdgeCounts Count(size_t dimension) const {
    const size_t depths = static_cast<size_t>(depths_) + 1;
    EdgeCounts counts = {std::vector<int64_t>(depths, 0), std::vector<int64_t>(depths, 0)};
    const int64_t degree = shape_.degrees[dimension];
    const bool pairs = shape_.traffic[dimension].pattern == EdgeTraffic::Pattern::kPairs;
    if (dimension == 0 && unit_ > 1) {
      const auto groups = static_cast<int64_t>(units_.size());
      counts.between.back() = groups * (pairs ? degree * (degree - 1) / 2 : degree - 1);
      if (!pairs) counts.closing.back() = groups;
      return counts;
    }
    const int64_t stride = stride_[dimension] / unit_;
    for (int64_t apart = 1; apart < (pairs ? degree : 2); ++apart) {
      CountApart(apart, degree, stride, counts.between);
    }
    if (!pairs) CountApart(degree - 1, degree, stride, counts.closing);
    return counts;
  }

  // Pairs whose coordinates differ by `apart`.
  void CountApart(int64_t apart, int64_t degree, int64_t stride,
                  std::vector<int64_t>& counts) const {
    const auto count = static_cast<int64_t>(units_.size());
    for (int64_t block = 0; block < count; block += stride * degree) {
      const int64_t end = block + stride * (degree - apart);
      for (int64_t unit = block; unit < end; ++unit) {
        counts[Meeting(unit, unit + apart * stride)] += unit_;
      }
    }
  }

  int64_t CountSplit(size_t dimension) const {
    const int64_t degree = shape_.degrees[dimension];
    if (degree == 1) return 0;
    const auto count = static_cast<int64_t>(units_.size());
    const int64_t stride = stride_[dimension] / unit_;
    const int64_t tensor = unit_ > 1 ? 1 : shape_.degrees[0];
    const int64_t tensor_stride = unit_ > 1 ? 1 : stride_[0];
    int64_t split = 0;
    for (int64_t block = 0; block < count; block += stride * degree) {
      for (int64_t first = block; first < block + stride; ++first) {
        if (tensor > 1 && first / tensor_stride % tensor != 0) continue;
        const int zone = ZoneOf(first);
        bool across = false;
        for (int64_t i = 0; i < degree; ++i) {
          for (int64_t t = 0; t < tensor; ++t) {
            across |= ZoneOf(first + i * stride + t * tensor_stride) != zone;
          }
        }
        split += across;
      }
    }
    return split;
  }

  const Shape& shape_;
  const int depths_;
  std::array<int64_t, planner::kDimensions> stride_ = {};  // in ranks
  int64_t unit_ = 1;                                       // ranks of a unit
  NodePaths paths_;
  std::vector<int> units_;  // their paths
};

}  // namespace

RankMapCounts CountsOf(const Cluster& cluster, const Shape& shape,
                       const std::vector<Dimension>& order, const std::vector<Device>& ranks) {
  return Counter(cluster, shape, order, ranks).Run();
}

}  // namespace strata::scheduler
