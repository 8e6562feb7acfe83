#include "scheduler/placement/improve.h"

#include <algorithm>
#include <array>

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Split pipelines, split context groups, bytes by accounted depth: less is better from the left.
constexpr int kMostDepths = 16;
using Change = std::array<int64_t, kMostDepths + 3>;

class Improver {
 public:
  Improver(const Cluster& cluster, const Cells& cells, const Grid& grid, int64_t budget,
           std::vector<int>& node_of)
      : cluster_(cluster), grid_(grid), budget_(budget), node_of_(node_of) {
    left_.resize(cells.first.size() - 1);
    for (size_t node = 0; node < left_.size(); ++node) {
      left_[node] = cells.first[node + 1] - cells.first[node];
    }
    for (const int node : node_of_) --left_[node];
    std::vector<char> near(cluster.groups().size(), 0);
    for (const int node : node_of_) near[cluster.GroupOf(node, ParentDepth())] = 1;
    // Free places: on the job's own nodes and beside them.
    for (size_t node = 0; node < left_.size(); ++node) {
      const int at = static_cast<int>(node);
      if (left_[node] > 0 && near[cluster.GroupOf(at, ParentDepth())]) open_.push_back(at);
    }
  }

  void Run() {
    while (budget_ > 0 && Sweep()) {
    }
  }

 private:
  int ParentDepth() const { return std::max(0, cluster_.node_depth() - 2); }

  bool Sweep() {
    bool changed = false;
    for (int cell = 0; cell < grid_.cells && budget_ > 0; ++cell) {
      for (int other = cell + 1; other < grid_.cells && budget_ > 0; ++other) {
        if (node_of_[cell] != node_of_[other]) changed |= TryExchange(cell, other);
      }
      for (size_t i = 0; i < open_.size() && budget_ > 0; ++i) changed |= TryMove(cell, open_[i]);
    }
    return changed;
  }

  bool TryExchange(int a, int b) {
    --budget_;
    Change change = {};
    Account({a, b}, -1, change);
    std::swap(node_of_[a], node_of_[b]);
    Account({a, b}, 1, change);
    if (change < Change{}) return true;
    std::swap(node_of_[a], node_of_[b]);
    return false;
  }

  bool TryMove(int cell, int to) {
    if (left_[to] == 0 || node_of_[cell] == to) return false;
    --budget_;
    const int from = node_of_[cell];
    Change change = {};
    Account({cell, cell}, -1, change);
    node_of_[cell] = to;
    Account({cell, cell}, 1, change);
    if (change < Change{}) {
      --left_[to];
      if (left_[from]++ == 0) open_.push_back(from);
      return true;
    }
    node_of_[cell] = from;
    return false;
  }

  // Adds all that two cells (or one) have to do with, times `sign`.
  void Account(const std::array<int, 2>& cells, int sign, Change& change) const {
    const auto [a, b] = cells;
    Bytes(a, -1, sign, change);
    if (b != a) Bytes(b, a, sign, change);
    for (const int axis : {kPipelineAxis, kContextAxis}) {
      if (grid_.axes[axis].degree == 1) continue;
      const int first = FirstOf(a, axis);
      int64_t& splits = change[axis == kPipelineAxis ? 0 : 1];
      splits += sign * IsSplit(first, axis);
      if (FirstOf(b, axis) != first) splits += sign * IsSplit(FirstOf(b, axis), axis);
    }
  }

  void Bytes(int cell, int except, int sign, Change& change) const {
    grid_.ForEachNeighbour(cell, [&](int other, int64_t bytes) {
      if (other == except) return;
      const int depth = cluster_.MeetingDepth(node_of_[cell], node_of_[other]);
      change[2 + cluster_.AccountedDepth(depth)] += sign * bytes;
    });
  }

  int FirstOf(int cell, int axis) const {
    return cell - grid_.Coordinate(cell, axis) * grid_.axes[axis].stride;
  }

  bool IsSplit(int first, int axis) const {
    const Axis& of = grid_.axes[axis];
    const auto zone = [&](int cell) {
      return cluster_.GroupOf(node_of_[cell], cluster_.pipeline_depth());
    };
    for (int i = 1; i < of.degree; ++i) {
      if (zone(first + i * of.stride) != zone(first)) return true;
    }
    return false;
  }

  const Cluster& cluster_;
  const Grid& grid_;
  int64_t budget_;
  std::vector<int>& node_of_;
  std::vector<int> left_;  // cells of a node
  std::vector<int> open_;  // nodes that may have some
};

}  // namespace

void Improve(const Cluster& cluster, const Cells& cells, const Grid& grid, int64_t budget,
             std::vector<int>& node_of) {
  if (cluster.node_depth() > kMostDepths) return;
  Improver(cluster, cells, grid, budget, node_of).Run();
}

}  // namespace strata::scheduler
