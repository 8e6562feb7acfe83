#include "scheduler/placement/improve.h"

#include <algorithm>
#include <utility>

#include "scheduler/placement/node_paths.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

class Improver {
 public:
  Improver(const Cluster& cluster, const Cells& cells, const Grid& grid, int64_t budget,
           std::vector<int>& node_of)
      : cluster_(cluster), grid_(grid), budget_(budget), node_of_(node_of), paths_(cluster) {
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
    for (const int node : node_of_) path_of_.push_back(paths_.PathOf(node));
    ListEdges();
    change_.resize(kFirstBytes + cluster.node_depth() + 1);
  }

  void Run() {
    while (budget_ > 0 && Sweep()) {
    }
  }

 private:
  // A change of the cost: split pipelines, split context groups, bytes by accounted depth; less is
  // better from the left.
  static constexpr int kFirstBytes = 2;

  struct Edge {
    int to = 0;
    int depth = 0;  // accounted, where its ends meet now
    int64_t bytes = 0;
  };

  int ParentDepth() const { return std::max(0, cluster_.node_depth() - 2); }

  void ListEdges() {
    for (int cell = 0; cell < grid_.cells; ++cell) {
      first_edge_.push_back(static_cast<int>(edges_.size()));
      grid_.ForEachNeighbour(cell, [&](int other, int64_t bytes) {
        edges_.push_back({other, Meeting(path_of_[cell], path_of_[other]), bytes});
      });
    }
    first_edge_.push_back(static_cast<int>(edges_.size()));
  }

  int Meeting(int path_a, int path_b) const {
    return cluster_.AccountedDepth(paths_.MeetingDepth(path_a, path_b));
  }

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
    const int path_a = path_of_[a], path_b = path_of_[b];
    std::fill(change_.begin(), change_.end(), 0);
    AddBytes(a, path_b, b);
    AddBytes(b, path_a, a);
    if (paths_.ZoneOf(path_a) != paths_.ZoneOf(path_b)) {
      AddSplits(a, b, -1);
      std::swap(path_of_[a], path_of_[b]);
      AddSplits(a, b, 1);
      std::swap(path_of_[a], path_of_[b]);
    }
    if (!IsBetter()) return false;
    std::swap(node_of_[a], node_of_[b]);
    std::swap(path_of_[a], path_of_[b]);
    MeetAnew(a);
    MeetAnew(b);
    return true;
  }

  bool TryMove(int cell, int to) {
    if (left_[to] == 0 || node_of_[cell] == to) return false;
    --budget_;
    const int from = node_of_[cell];
    const int path = path_of_[cell], new_path = paths_.PathOf(to);
    std::fill(change_.begin(), change_.end(), 0);
    AddBytes(cell, new_path, -1);
    if (paths_.ZoneOf(path) != paths_.ZoneOf(new_path)) {
      AddSplits(cell, cell, -1);
      path_of_[cell] = new_path;
      AddSplits(cell, cell, 1);
      path_of_[cell] = path;
    }
    if (!IsBetter()) return false;
    node_of_[cell] = to;
    path_of_[cell] = new_path;
    MeetAnew(cell);
    --left_[to];
    if (left_[from]++ == 0) open_.push_back(from);
    return true;
  }

  bool IsBetter() const {
    const auto first =
        std::find_if(change_.begin(), change_.end(), [](int64_t c) { return c != 0; });
    return first != change_.end() && *first < 0;
  }

  // What changes when a cell goes to `path`; its edges to `except`, which comes here, stay alike.
  void AddBytes(int cell, int path, int except) {
    for (int i = first_edge_[cell]; i < first_edge_[cell + 1]; ++i) {
      const Edge& edge = edges_[i];
      if (edge.to == except) continue;
      change_[kFirstBytes + edge.depth] -= edge.bytes;
      change_[kFirstBytes + Meeting(path, path_of_[edge.to])] += edge.bytes;
    }
  }

  void MeetAnew(int cell) {
    for (int i = first_edge_[cell]; i < first_edge_[cell + 1]; ++i) {
      const int to = edges_[i].to;
      edges_[i].depth = Meeting(path_of_[cell], path_of_[to]);
      for (int back = first_edge_[to]; back < first_edge_[to + 1]; ++back) {
        if (edges_[back].to == cell) edges_[back].depth = edges_[i].depth;
      }
    }
  }

  // Adds the groups of two cells (or one) that are split, times `sign`.
  void AddSplits(int a, int b, int sign) {
    for (const int axis : {kPipelineAxis, kContextAxis}) {
      if (grid_.axes[axis].degree == 1) continue;
      const int first = FirstOf(a, axis);
      int64_t& splits = change_[axis == kPipelineAxis ? 0 : 1];
      splits += sign * IsSplit(first, axis);
      if (FirstOf(b, axis) != first) splits += sign * IsSplit(FirstOf(b, axis), axis);
    }
  }

  int FirstOf(int cell, int axis) const {
    return cell - grid_.Coordinate(cell, axis) * grid_.axes[axis].stride;
  }

  bool IsSplit(int first, int axis) const {
    const Axis& of = grid_.axes[axis];
    const int zone = paths_.ZoneOf(path_of_[first]);
    for (int i = 1; i < of.degree; ++i) {
      if (paths_.ZoneOf(path_of_[first + i * of.stride]) != zone) return true;
    }
    return false;
  }

  const Cluster& cluster_;
  const Grid& grid_;
  int64_t budget_;
  std::vector<int>& node_of_;
  NodePaths paths_;
  std::vector<int> path_of_;  // by cell
  std::vector<int> left_;     // cells of a node
  std::vector<int> open_;     // nodes that may have some
  std::vector<Edge> edges_;   // by cell
  std::vector<int> first_edge_;
  std::vector<int64_t> change_;
};

}  // namespace

void Improve(const Cluster& cluster, const Cells& cells, const Grid& grid, int64_t budget,
             std::vector<int>& node_of) {
  Improver(cluster, cells, grid, budget, node_of).Run();
}

}  // namespace strata::scheduler
