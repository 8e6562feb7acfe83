// The cluster as a tree: region → zone → rack → NVLink domain → node → device, with any number of
// named levels above the node. Its shape is fixed when it is made; only what changes from moment to
// moment (free devices, health) may be set later.
//
// Depths: 0 is the root, 1 … levels().size() are the named levels, outermost first, and
// levels().size() + 1 is the node. Two devices meet at the depth of their nearest common group: 0
// when even the outermost level differs, node_depth() when they share a node.
#ifndef STRATA_TOPOLOGY_CLUSTER_H_
#define STRATA_TOPOLOGY_CLUSTER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::topology {

// Between devices whose nearest common group is of one level: per device and direction.
struct Link {
  double bytes_per_second = 0;  // already divided by the oversubscription
  double latency_seconds = 0;
  double oversubscription = 1;  // told to people; 1 when the level is not oversubscribed
};

inline constexpr int kMostDevices = 64;  // of one node

struct Node {
  std::string name;
  std::string kind;  // of its devices: cpu, h100, …
  int devices = 0;
  std::vector<int> free;  // indices in [0, devices), ascending, no duplicates
  bool healthy = true;
  // One value per level, outermost first. An empty one at the domain's level or below means that
  // the node stands alone there; above it, empty values of one parent form one unnamed group.
  std::vector<std::string> at;
};

// What importers make: any order of nodes, everything by name.
struct Description {
  std::vector<std::string> levels;  // outermost first; may be empty: then all nodes are one domain
  std::string domain_level;         // empty: the innermost
  std::string pipeline_level;       // empty: the level named "zone", else the root
  std::map<std::string, Link> links;  // by level's name, "node" or "root"
  std::vector<Node> nodes;
};

// All that lies below one value of one level.
struct Group {
  std::string name;  // as in `at`; of the root: empty
  int depth = 0;
  int parent = -1;     // index into groups(); of the root: -1
  int first_node = 0;  // its nodes are nodes()[first_node, end_node)
  int end_node = 0;
  int first_child = 0;  // its groups one deeper are groups()[first_child, end_child); for groups of
  int end_child = 0;    // the innermost level both are 0
};

class Cluster {
 public:
  // An empty cluster: no levels, no nodes.
  Cluster();
  // InvalidArgument, naming node and field: two nodes of one name, `at` of the wrong size, unknown
  // domain_level or pipeline_level, a pipeline level inside the domain's, free indices out of range
  // or order, duplicate or reserved level names (node, device, root), links of unknown levels.
  static absl::StatusOr<Cluster> Make(Description description);

  const std::vector<std::string>& levels() const { return levels_; }
  int node_depth() const { return static_cast<int>(levels_.size()) + 1; }
  // Of the groups that tensor groups, or pipelines, stay inside; 0 is the root.
  int domain_depth() const { return domain_depth_; }
  int pipeline_depth() const { return pipeline_depth_; }

  // In topology order: siblings by natural order of their names (n2 before n10), so that the order
  // of the description does not matter and every group is a range.
  const std::vector<Node>& nodes() const { return nodes_; }
  // By depth, then in topology order; groups()[0] is the root. Nodes are not groups.
  const std::vector<Group>& groups() const { return groups_; }
  // Index into groups() of the group of `depth` (0 … levels().size()) that holds the node.
  int GroupOf(int node, int depth) const { return group_of_[depth][node]; }
  // `free` as in Node: within range, ascending.
  void SetState(int node, std::vector<int> free, bool healthy);

  // Index into nodes(), or -1.
  int FindNode(absl::string_view name) const;
  // Of the nearest common group of devices on these nodes; node_depth() when they are the same.
  int MeetingDepth(int node_a, int node_b) const;

  // How bytes are accounted: between two devices of one node at the innermost level, unless links
  // of "node" are described. "root" is depth 0. Empty levels: the node, or the root.
  bool has_node_link() const { return has_node_link_; }
  int AccountedDepth(int meeting_depth) const {
    return meeting_depth == node_depth() && !has_node_link_ ? node_depth() - 1 : meeting_depth;
  }
  // "root", a level's name, or "node".
  std::string DepthName(int depth) const;
  // Of devices that meet at `depth`. A level without a description has the link of the nearest
  // outer one that has one, else of the nearest inner one; without any, 1 GB/s and 10 µs are
  // assumed.
  const Link& LinkAt(int depth) const { return links_[depth]; }
  bool has_links() const { return !described_.empty(); }  // whether any was described
  // zone/rack/…: the values above the node, joined by '/'.
  std::string PathOf(int node) const;
  // What would make this cluster again; nodes in topology order.
  Description ToDescription() const;

 private:
  void Arrange();

  std::vector<std::string> levels_;
  int domain_depth_ = 0;
  int pipeline_depth_ = 0;
  bool has_node_link_ = false;
  std::vector<Link> links_;                // by depth
  std::map<std::string, Link> described_;  // as they were described
  std::vector<Node> nodes_;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> group_of_;  // [depth][node]
  std::vector<int> by_name_;                // node indices, sorted by name
};

// Whether `a` comes before `b` for people: digits compare as numbers (n2 before n10; of n1 and n01
// the shorter first).
bool NaturalLess(absl::string_view a, absl::string_view b);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_CLUSTER_H_
