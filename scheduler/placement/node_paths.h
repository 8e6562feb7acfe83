// Where some of a cluster's nodes meet, from one flat table.
#ifndef STRATA_SCHEDULER_PLACEMENT_NODE_PATHS_H_
#define STRATA_SCHEDULER_PLACEMENT_NODE_PATHS_H_

#include <vector>

#include "topology/cluster.h"

namespace strata::scheduler {

class NodePaths {
 public:
  explicit NodePaths(const topology::Cluster& cluster)
      : cluster_(cluster), depths_(cluster.node_depth()), path_of_(cluster.nodes().size(), -1) {}

  // A node's path, by which the others know it.
  int PathOf(int node) {
    int& path = path_of_[node];
    if (path >= 0) return path;
    path = static_cast<int>(groups_.size());
    for (int depth = 1; depth < depths_; ++depth) groups_.push_back(cluster_.GroupOf(node, depth));
    groups_.push_back(node);
    return path;
  }

  // Groups are nested, so the number of equal ones is the depth of the last; without branches, for
  // nothing predicts them.
  int MeetingDepth(int path_a, int path_b) const {
    const int* const a = &groups_[path_a];
    const int* const b = &groups_[path_b];
    int depth = 0;
    for (int i = 0; i < depths_; ++i) depth += a[i] == b[i];
    return depth;
  }
  // The group of a path's node at the pipeline level.
  int ZoneOf(int path) const {
    const int depth = cluster_.pipeline_depth();
    return depth == 0 ? 0 : groups_[path + depth - 1];
  }

 private:
  const topology::Cluster& cluster_;
  const int depths_;
  std::vector<int> path_of_;  // by node: into groups_
  std::vector<int> groups_;   // of each path by depth, without the root, and the node
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_NODE_PATHS_H_
