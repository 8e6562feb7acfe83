// Which nodes of a range are as good as each other for a job that is being placed.
#ifndef STRATA_SCHEDULER_PLACEMENT_LIKENESS_H_
#define STRATA_SCHEDULER_PLACEMENT_LIKENESS_H_

#include <vector>

#include "topology/cluster.h"

namespace strata::scheduler {

// The nodes of a group, numbered from 0, and the groups among them.
class NodeRange {
 public:
  NodeRange(const topology::Cluster& cluster, const topology::Group& range);

  int depths() const { return depths_; }
  int first() const { return first_; }
  int nodes() const { return nodes_; }
  int groups() const { return depths_ * nodes_; }  // more than there are
  int GroupOf(int node, int depth) const { return group_of_[depth * nodes_ + node]; }
  int FirstOf(int group) const { return group % nodes_; }
  int EndOf(int group) const { return end_of_[group]; }
  // The accounted depth at which two nodes meet.
  int Meeting(int a, int b) const { return meeting_[a * nodes_ + b]; }

 private:
  const int depths_;
  const int first_;
  const int nodes_;
  std::vector<int> group_of_;  // by depth, node
  std::vector<int> end_of_;    // by group
  std::vector<int> meeting_;   // by node, node
};

// Nodes that can be exchanged without changing any cost are tried once: a node or group that holds
// nothing of the job yet is like its siblings with the same free devices in the same arrangement.
class Likeness {
 public:
  // `left`: free devices by node, rail.
  Likeness(const NodeRange& range, const std::vector<int>& left, int rails);

  // Equal for nodes that are alike, given how much of the job each group and node holds; less than
  // Keys().
  int KeyOf(int node, const std::vector<int>& in_group, int in_node) const {
    int depth = range_.depths();
    if (in_node > 0) return Keys() - 1 - node;
    while (depth > 0 && in_group[range_.GroupOf(node, depth - 1)] == 0) --depth;
    return like_[depth * range_.nodes() + node];
  }
  int Keys() const { return (range_.depths() + 2) * range_.nodes(); }

 private:
  // The first node of the same parent with the same path.
  void FindLike(int depth, const std::vector<int>& path);

  const NodeRange& range_;
  std::vector<int> like_;  // by depth, node
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_LIKENESS_H_
