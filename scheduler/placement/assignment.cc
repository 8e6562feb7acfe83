#include "scheduler/placement/assignment.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/check.h"
#include "scheduler/placement/partition.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;
using topology::Group;

// A group, or a node.
struct Subtree {
  int depth = 0;
  int index = 0;  // into groups(), or nodes()
};

struct KeyHash {
  size_t operator()(const std::vector<int>& key) const {
    uint64_t hash = key.size();
    for (const int value : key) hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
  }
};

class TopDown {
 public:
  TopDown(const Cluster& cluster, const Cells& cells, const Grid& grid)
      : cluster_(cluster),
        grid_(grid),
        node_of_(grid.cells, -1),
        children_at_(cluster.node_depth()) {
    for (const Group& group : cluster.groups()) {
      left_in_group_.push_back(cells.CountIn(group.first_node, group.end_node));
    }
    for (size_t node = 0; node + 1 < cells.first.size(); ++node) {
      left_in_node_.push_back(cells.first[node + 1] - cells.first[node]);
    }
  }

  std::vector<int> Run() {
    Box box;
    for (int i = 0; i < kAxes; ++i) box.to[i] = grid_.axes[i].degree;
    Place(box, {0, 0});
    return std::move(node_of_);
  }

 private:
  // What decides where a box goes.
  struct Ask {
    int cells = 0;
    int pipeline = 1;  // cells of a whole one, 1 when the box has none
    int block = 1;     // cells of all whole pipelines of a context group
  };

  bool IsNode(Subtree at) const { return at.depth == cluster_.node_depth(); }
  int Left(Subtree at) const {
    return IsNode(at) ? left_in_node_[at.index] : left_in_group_[at.index];
  }

  template <typename Visit>
  void ForEachChild(Subtree at, Visit visit) const {
    const Group& group = cluster_.groups()[at.index];
    const bool nodes = at.depth + 1 == cluster_.node_depth();
    const int begin = nodes ? group.first_node : group.first_child;
    const int end = nodes ? group.end_node : group.end_child;
    for (int i = begin; i < end; ++i) {
      const Subtree child = {at.depth + 1, i};
      if (Left(child) > 0) visit(child);
    }
  }

  // What is left in each of the groups of the pipeline level in `at`, or in it itself where it lies
  // inside one.
  void AppendPools(Subtree at, std::vector<int>& pools) const {
    if (at.depth >= cluster_.pipeline_depth()) return pools.push_back(Left(at));
    ForEachChild(at, [&](Subtree child) { AppendPools(child, pools); });
  }

  int UnitsIn(Subtree at, int unit) const {
    std::vector<int> pools;
    AppendPools(at, pools);
    int units = 0;
    for (const int pool : pools) units += pool / unit;
    return units;
  }

  // How much of a box could stay whole inside `at`: pipelines, then all pipelines of a context.
  std::pair<int, int> Whole(Subtree at, const Ask& ask) const {
    return {std::min(ask.cells / ask.pipeline, UnitsIn(at, ask.pipeline)),
            std::min(ask.cells / ask.block, UnitsIn(at, ask.block))};
  }

  Ask AskOf(const Box& box, Subtree at) const {
    Ask ask = {box.cells()};
    if (at.depth >= cluster_.pipeline_depth()) return ask;
    const int pipeline = grid_.axes[kPipelineAxis].degree;
    const int context = grid_.axes[kContextAxis].degree;
    if (box.extent(kPipelineAxis) == pipeline) ask.pipeline = pipeline;
    ask.block = ask.pipeline;
    if (box.extent(kContextAxis) == context) ask.block *= context;
    return ask;
  }

  // The deepest, then tightest subtree that holds the box and splits no more of it than `at`.
  Subtree Smallest(Subtree at, const Ask& ask) const {
    Subtree best = at;
    // Deeper down everything lies inside one group of the pipeline level.
    const bool splits = at.depth + 1 < cluster_.pipeline_depth();
    Descend(at, ask, splits ? Whole(at, ask) : std::pair(0, 0), best);
    return best;
  }
  void Descend(Subtree at, const Ask& ask, const std::pair<int, int>& whole, Subtree& best) const {
    if (IsNode(at)) return;
    ForEachChild(at, [&](Subtree child) {
      if (Left(child) < ask.cells) return;
      if (child.depth < cluster_.pipeline_depth() && Whole(child, ask) != whole) return;
      if (child.depth > best.depth || (child.depth == best.depth && Left(child) < Left(best))) {
        best = child;
      }
      Descend(child, ask, whole, best);
    });
  }

  void Place(const Box& box, Subtree outer) {
    const Subtree at = Smallest(outer, AskOf(box, outer));
    if (IsNode(at)) return Emit(box, at.index);
    std::vector<int>& subtrees = children_at_[at.depth];
    Children& children = capacities_;
    subtrees.clear();
    children.pools.clear();
    children.ends.clear();
    ForEachChild(at, [&](Subtree child) {
      subtrees.push_back(child.index);
      AppendPools(child, children.pools);
      children.ends.push_back(static_cast<int>(children.pools.size()));
    });
    const PartitionRules rules = {.keep_whole = at.depth < cluster_.pipeline_depth(),
                                  .budget = BudgetFor(at, box, children)};
    for (const Part& part : Divided(Moved(box, box.from, -1), children, rules)) {
      Place(Moved(part.box, box.from, 1), {at.depth + 1, subtrees[part.child]});
    }
  }

  static Box Moved(Box box, const Axes& by, int sign) {
    for (int i = 0; i < kAxes; ++i) {
      box.from[i] += sign * by[i];
      box.to[i] += sign * by[i];
    }
    return box;
  }

  // A large job meets the same division of a few cells among a few children thousands of times.
  // What a division is worth depends on the box's extents, not on where it begins.
  const std::vector<Part>& Divided(const Box& box, const Children& children,
                                   const PartitionRules& rules) {
    key_.assign(box.to.begin(), box.to.end());
    key_.insert(key_.end(), {rules.keep_whole ? 1 : 0, rules.budget});
    key_.insert(key_.end(), children.ends.begin(), children.ends.end());
    key_.insert(key_.end(), children.pools.begin(), children.pools.end());
    const auto [known, fresh] = divisions_.try_emplace(key_);
    if (fresh) known->second = DividedAmong(grid_, box, children, rules);
    return known->second;  // stays where it is while others are added
  }

  // How many divisions may be tried: the fewer the more children all boxes of this level have
  // together. One where all cost the same.
  int BudgetFor(Subtree at, const Box& box, const Children& children) const {
    constexpr double kRunsPerLevel = 8000;
    if (at.depth + 1 == cluster_.node_depth() &&
        cluster_.AccountedDepth(cluster_.node_depth()) == at.depth) {
      return 1;
    }
    int largest = 0;
    for (const int pool : children.pools) largest = std::max(largest, pool);
    if (largest <= 1) return 1;
    const double share = static_cast<double>(box.cells()) / grid_.cells;
    return std::max(3, static_cast<int>(kRunsPerLevel * share / children.count()));
  }

  void Emit(const Box& box, int node) {
    Axes at = box.from;
    int cell = 0;
    for (int i = 0; i < kAxes; ++i) cell += at[i] * grid_.axes[i].stride;
    const int cells = box.cells();
    for (int i = 0; i < cells; ++i) {
      node_of_[cell] = node;
      for (int axis = 0; axis < kAxes; ++axis) {
        cell += grid_.axes[axis].stride;
        if (++at[axis] < box.to[axis]) break;
        cell -= box.extent(axis) * grid_.axes[axis].stride;
        at[axis] = box.from[axis];
      }
    }
    left_in_node_[node] -= cells;
    STRATA_CHECK(left_in_node_[node] >= 0);
    for (int depth = 0; depth < cluster_.node_depth(); ++depth) {
      left_in_group_[cluster_.GroupOf(node, depth)] -= cells;
    }
  }

  const Cluster& cluster_;
  const Grid& grid_;
  std::vector<int> left_in_group_;
  std::vector<int> left_in_node_;
  std::vector<int> node_of_;
  std::unordered_map<std::vector<int>, std::vector<Part>, KeyHash> divisions_;
  // Reused: of what is being divided at each depth, and of the last division that was looked up.
  std::vector<std::vector<int>> children_at_;
  Children capacities_;
  std::vector<int> key_;
};

}  // namespace

std::vector<int> AssignTopDown(const Cluster& cluster, const Cells& cells, const Grid& grid) {
  return TopDown(cluster, cells, grid).Run();
}

}  // namespace strata::scheduler
