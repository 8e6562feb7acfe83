#include "scheduler/placement/likeness.h"

#include <algorithm>
#include <map>
#include <utility>

namespace strata::scheduler {

NodeRange::NodeRange(const topology::Cluster& cluster, const topology::Group& range)
    : depths_(cluster.node_depth()),
      first_(range.first_node),
      nodes_(range.end_node - range.first_node),
      group_of_(depths_ * nodes_),
      end_of_(depths_ * nodes_),
      meeting_(nodes_ * nodes_, 0) {
  for (int depth = 0; depth < depths_; ++depth) {
    for (int node = 0; node < nodes_;) {
      const int group = cluster.GroupOf(first_ + node, depth);
      const int end = std::min(nodes_, cluster.groups()[group].end_node - first_);
      for (int i = node; i < end; ++i) {
        group_of_[depth * nodes_ + i] = depth * nodes_ + node;
        std::fill_n(&meeting_[i * nodes_ + node], end - node, cluster.AccountedDepth(depth));
      }
      end_of_[depth * nodes_ + node] = end;
      node = end;
    }
  }
  for (int i = 0; i < nodes_; ++i) meeting_[i * nodes_ + i] = cluster.AccountedDepth(depths_);
}

Likeness::Likeness(const NodeRange& range, const std::vector<int>& left, int rails)
    : range_(range), like_((range.depths() + 1) * range.nodes()) {
  const int nodes = range.nodes();
  std::map<std::vector<int>, int> known;
  const auto id = [&](std::vector<int> what) {
    return known.emplace(std::move(what), static_cast<int>(known.size())).first->second;
  };
  // By node: of the subtree that holds it and of the path there, from the depth to the node.
  std::vector<int> shape(nodes), path(nodes);
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> what = {range.depths()};
    what.insert(what.end(), left.begin() + node * rails, left.begin() + (node + 1) * rails);
    path[node] = shape[node] = id(std::move(what));
  }
  FindLike(range.depths(), path);
  for (int depth = range.depths() - 1; depth >= 0; --depth) {
    for (int node = 0; node < nodes;) {
      const int end = range.EndOf(range.GroupOf(node, depth));
      std::vector<int> what(shape.begin() + node, shape.begin() + end);
      std::sort(what.begin(), what.end());
      what.insert(what.begin(), depth);
      const int group = id(std::move(what));
      for (; node < end; ++node) {
        path[node] = id({-1, group, path[node]});
        shape[node] = group;
      }
    }
    FindLike(depth, path);
  }
}

void Likeness::FindLike(int depth, const std::vector<int>& path) {
  std::map<std::pair<int, int>, int> first;
  for (int node = 0; node < range_.nodes(); ++node) {
    const int parent = depth == 0 ? 0 : range_.GroupOf(node, depth - 1);
    const int key = depth * range_.nodes() + node;
    like_[key] = first.emplace(std::pair(parent, path[node]), key).first->second;
  }
}

}  // namespace strata::scheduler
