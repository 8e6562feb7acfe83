#include "topology/cluster.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace strata::topology {
namespace {

constexpr Link kUnknownLink = {.bytes_per_second = 1e9, .latency_seconds = 1e-5};

absl::Status Invalid(const std::string& text) { return absl::InvalidArgumentError(text); }

// 1-based depth of the named level, 0 when there is none.
int DepthOf(const std::vector<std::string>& levels, absl::string_view name) {
  const auto at = std::find(levels.begin(), levels.end(), name);
  return at == levels.end() ? 0 : static_cast<int>(at - levels.begin()) + 1;
}

absl::Status CheckLevels(const Description& description) {
  std::set<std::string> seen;
  for (const std::string& level : description.levels) {
    if (level.empty() || level == "node" || level == "device" || level == "root") {
      return Invalid(absl::StrCat("levels: \"", level, "\" cannot name a level"));
    }
    if (!seen.insert(level).second) {
      return Invalid(absl::StrCat("levels: ", level, " stands twice"));
    }
  }
  for (const auto& [name, level] : {std::pair("domain_level", description.domain_level),
                                    std::pair("pipeline_level", description.pipeline_level)}) {
    if (!level.empty() && DepthOf(description.levels, level) == 0) {
      return Invalid(absl::StrCat(name, ": there is no level ", level));
    }
  }
  for (const auto& [level, link] : description.links) {
    if (level != "node" && level != "root" && DepthOf(description.levels, level) == 0) {
      return Invalid(absl::StrCat("links.", level, ": there is no level ", level));
    }
    const bool finite = std::isfinite(link.bytes_per_second) &&
                        std::isfinite(link.latency_seconds) && std::isfinite(link.oversubscription);
    if (!finite || link.bytes_per_second <= 0 || link.latency_seconds < 0 ||
        link.oversubscription < 1) {
      return Invalid(absl::StrCat("links.", level,
                                  ": bytes_per_second must be greater than 0, latency_seconds at "
                                  "least 0, oversubscription at least 1"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNode(const Node& node, size_t levels) {
  if (node.name.empty()) return Invalid("nodes: a node has no name");
  if (node.at.size() != levels) {
    return Invalid(
        absl::StrCat(node.name, ": at has ", node.at.size(), " values for ", levels, " levels"));
  }
  if (node.kind.empty()) return Invalid(absl::StrCat(node.name, ": device: there is none"));
  if (node.devices < 0 || node.devices > kMostDevices) {
    return Invalid(
        absl::StrCat(node.name, ": devices: ", node.devices, " (0 to ", kMostDevices, ")"));
  }
  int last = -1;
  for (const int index : node.free) {
    if (index <= last || index >= node.devices) {
      return Invalid(absl::StrCat(node.name, ": free: ", index, " (there are devices 0 to ",
                                  node.devices - 1, ", each once)"));
    }
    last = index;
  }
  return absl::OkStatus();
}

// Links by depth: what is not described is taken from the next outer level that is, else from the
// next inner one.
std::vector<Link> FillLinks(const std::vector<std::string>& levels,
                            const std::map<std::string, Link>& described) {
  const int depths = static_cast<int>(levels.size()) + 2;
  std::vector<const Link*> known(depths, nullptr);
  for (const auto& [name, link] : described) {
    known[name == "root" ? 0 : name == "node" ? depths - 1 : DepthOf(levels, name)] = &link;
  }
  // A node without links of its own is like its innermost level.
  if (depths >= 2 && known[depths - 1] == nullptr) known[depths - 1] = known[depths - 2];
  const Link* outer = nullptr;
  std::vector<Link> links(depths, kUnknownLink);
  for (int depth = 0; depth < depths; ++depth) {
    if (known[depth] != nullptr) outer = known[depth];
    if (outer != nullptr) links[depth] = *outer;
  }
  const auto first = std::find_if(known.begin(), known.end(), [](auto* link) { return link; });
  if (first != known.end())
    std::fill(links.begin(), links.begin() + (first - known.begin()), **first);
  return links;
}

}  // namespace

bool NaturalLess(absl::string_view a, absl::string_view b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return static_cast<uint8_t>(a[i]) < static_cast<uint8_t>(b[j]);
      ++i, ++j;
      continue;
    }
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    const size_t first_i = i, first_j = j;
    while (i < a.size() && digit(a[i])) ++i;
    while (j < b.size() && digit(b[j])) ++j;
    if (i - first_i != j - first_j) return i - first_i < j - first_j;
    if (const int order = a.substr(first_i, i - first_i).compare(b.substr(first_j, j - first_j))) {
      return order < 0;
    }
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

Cluster::Cluster() : links_(FillLinks({}, {})), groups_(1), group_of_(1) {}

absl::StatusOr<Cluster> Cluster::Make(Description description) {
  RETURN_IF_ERROR(CheckLevels(description));
  for (const Node& node : description.nodes) {
    RETURN_IF_ERROR(CheckNode(node, description.levels.size()));
  }
  Cluster cluster;
  cluster.levels_ = std::move(description.levels);
  const std::vector<std::string>& levels = cluster.levels_;
  cluster.links_ = FillLinks(levels, description.links);
  cluster.has_node_link_ = description.links.contains("node");
  cluster.described_ = std::move(description.links);
  cluster.domain_depth_ = description.domain_level.empty()
                              ? static_cast<int>(levels.size())
                              : DepthOf(levels, description.domain_level);
  const bool zone = description.pipeline_level.empty();
  cluster.pipeline_depth_ = DepthOf(levels, zone ? "zone" : description.pipeline_level);
  if (cluster.pipeline_depth_ > cluster.domain_depth_) {
    if (!zone) {
      return Invalid(absl::StrCat("pipeline_level: ", description.pipeline_level,
                                  " lies inside the domain's level"));
    }
    cluster.pipeline_depth_ = cluster.domain_depth_;
  }
  cluster.nodes_ = std::move(description.nodes);
  cluster.Arrange();
  const std::vector<int>& by_name = cluster.by_name_;
  for (size_t i = 1; i < by_name.size(); ++i) {
    if (cluster.nodes_[by_name[i - 1]].name == cluster.nodes_[by_name[i]].name) {
      return Invalid(absl::StrCat(cluster.nodes_[by_name[i]].name, ": two nodes have this name"));
    }
  }
  return cluster;
}

// Sorts the nodes into topology order and finds the groups: at each depth, runs of equal paths.
void Cluster::Arrange() {
  const int count = static_cast<int>(nodes_.size());
  const auto alone = [&](const Node& node, int depth) {
    return depth >= domain_depth_ && node.at[depth - 1].empty();
  };
  // First difference of two nodes' paths: its sign, and at which depth it is.
  const auto compare = [&](const Node& a, const Node& b) {
    for (size_t i = 0; i < levels_.size(); ++i) {
      if (a.at[i] != b.at[i]) return NaturalLess(a.at[i], b.at[i]);
      if (alone(a, static_cast<int>(i) + 1) && a.name != b.name) return NaturalLess(a.name, b.name);
    }
    return NaturalLess(a.name, b.name);
  };
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return compare(nodes_[a], nodes_[b]); });
  std::vector<Node> sorted;
  sorted.reserve(count);
  for (const int node : order) sorted.push_back(std::move(nodes_[node]));
  nodes_ = std::move(sorted);

  groups_ = {{.end_node = count}};
  group_of_.assign(levels_.size() + 1, std::vector<int>(count, 0));
  for (int depth = 1; depth <= static_cast<int>(levels_.size()); ++depth) {
    for (int node = 0; node < count; ++node) {
      const int parent = group_of_[depth - 1][node];
      const bool starts = node == groups_[parent].first_node ||
                          nodes_[node].at[depth - 1] != nodes_[node - 1].at[depth - 1] ||
                          alone(nodes_[node], depth);
      if (starts) {
        const int group = static_cast<int>(groups_.size());
        if (node == groups_[parent].first_node) groups_[parent].first_child = group;
        groups_[parent].end_child = group + 1;
        groups_.push_back({.name = nodes_[node].at[depth - 1],
                           .depth = depth,
                           .parent = parent,
                           .first_node = node});
      }
      groups_.back().end_node = node + 1;
      group_of_[depth][node] = static_cast<int>(groups_.size()) - 1;
    }
  }
  by_name_.resize(count);
  std::iota(by_name_.begin(), by_name_.end(), 0);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](int a, int b) { return nodes_[a].name < nodes_[b].name; });
}

void Cluster::SetState(int node, std::vector<int> free, bool healthy) {
  nodes_[node].free = std::move(free);
  nodes_[node].healthy = healthy;
}

int Cluster::FindNode(absl::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](int node, absl::string_view wanted) {
                                     return absl::string_view(nodes_[node].name) < wanted;
                                   });
  return at != by_name_.end() && nodes_[*at].name == name ? *at : -1;
}

int Cluster::MeetingDepth(int node_a, int node_b) const {
  if (node_a == node_b) return node_depth();
  int depth = static_cast<int>(levels_.size());
  while (depth > 0 && group_of_[depth][node_a] != group_of_[depth][node_b]) --depth;
  return depth;
}

std::string Cluster::DepthName(int depth) const {
  if (depth == 0) return "root";
  return depth == node_depth() ? "node" : levels_[depth - 1];
}

std::string Cluster::PathOf(int node) const { return absl::StrJoin(nodes_[node].at, "/"); }

Description Cluster::ToDescription() const {
  return {.levels = levels_,
          .domain_level = domain_depth_ == 0 ? "" : levels_[domain_depth_ - 1],
          .pipeline_level = pipeline_depth_ == 0 ? "" : levels_[pipeline_depth_ - 1],
          .links = described_,
          .nodes = nodes_};
}

}  // namespace strata::topology
