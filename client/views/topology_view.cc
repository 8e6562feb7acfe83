#include "client/views/topology_view.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"
#include "common/units.h"

namespace strata::client {
namespace {

using topology::Cluster;
using topology::Group;
using topology::Link;

constexpr size_t kMostTreeLines = 44;
constexpr size_t kMostRows = 50;

struct Totals {
  int nodes = 0;
  int healthy = 0;
  int64_t devices = 0;
  int64_t free = 0;  // of healthy nodes
  std::map<std::string, int64_t> kinds;
};

Totals TotalsOf(const Cluster& cluster, int first, int end) {
  Totals totals;
  for (int i = first; i < end; ++i) {
    const topology::Node& node = cluster.nodes()[i];
    ++totals.nodes;
    totals.healthy += node.healthy ? 1 : 0;
    totals.devices += node.devices;
    totals.free += node.healthy ? static_cast<int64_t>(node.free.size()) : 0;
    totals.kinds[node.kind] += node.devices;
  }
  return totals;
}

std::string TotalsText(const Totals& totals) {
  std::vector<std::string> kinds;
  for (const auto& [kind, devices] : totals.kinds)
    kinds.push_back(absl::StrCat(devices, " ", kind));
  std::string text = absl::StrCat(totals.nodes, totals.nodes == 1 ? " node, " : " nodes, ",
                                  absl::StrJoin(kinds, " + "), ", ");
  absl::StrAppend(&text,
                  totals.free == totals.devices ? "all free" : absl::StrCat(totals.free, " free"));
  const int ill = totals.nodes - totals.healthy;
  if (ill > 0) absl::StrAppend(&text, ", ", ill, ill == 1 ? " node" : " nodes", " not healthy");
  return text;
}

std::string LinkText(const Link& link) {
  std::string text = absl::StrCat(
      common::FormatDecimal(link.bytes_per_second, "B"), "/s, ",
      link.latency_seconds < 1e-3 ? absl::StrCat(absl::SixDigits(link.latency_seconds * 1e6), " µs")
                                  : common::FormatSeconds(link.latency_seconds));
  if (link.oversubscription != 1) absl::StrAppend(&text, ", 1:", link.oversubscription);
  return text;
}

std::string LevelTable(const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows;
  const bool described = !cluster.ToDescription().links.empty();
  for (int depth = 0; depth <= cluster.node_depth(); ++depth) {
    int groups = 0, least = static_cast<int>(cluster.nodes().size()), most = 0;
    for (const Group& group : cluster.groups()) {
      if (group.depth != depth) continue;
      ++groups;
      least = std::min(least, group.end_node - group.first_node);
      most = std::max(most, group.end_node - group.first_node);
    }
    const bool node = depth == cluster.node_depth();
    if (node) groups = static_cast<int>(cluster.nodes().size());
    std::vector<std::string> notes;
    if (depth == cluster.domain_depth()) notes.push_back("tensor groups stay inside");
    if (depth == cluster.pipeline_depth()) notes.push_back("pipelines stay inside");
    rows.push_back({cluster.DepthName(depth), absl::StrCat(groups),
                    node            ? "-"
                    : least == most ? absl::StrCat(most)
                                    : absl::StrCat(least, " to ", most),
                    described ? LinkText(cluster.LinkAt(depth)) : "not described",
                    absl::StrJoin(notes, ", ")});
  }
  return FormatTable({"LEVEL", "GROUPS", "NODES EACH", "LINK PER DEVICE", "RULE"}, rows);
}

class TreeText {
 public:
  TreeText(const Cluster& cluster, bool unicode) : cluster_(cluster), unicode_(unicode) {}

  std::string Draw() {
    // As deep as all groups of that depth and above fit.
    std::vector<size_t> groups(cluster_.node_depth() + 1, 0);
    for (const Group& group : cluster_.groups()) ++groups[group.depth];
    groups.back() = cluster_.nodes().size();
    size_t lines = 0;
    for (int depth = 1; depth <= cluster_.node_depth(); ++depth) {
      lines += groups[depth];
      if (lines > kMostTreeLines && depth > 1) break;
      depth_ = depth;
    }
    Children(0, "");
    if (depth_ < cluster_.node_depth()) {
      absl::StrAppend(&text_, "(", groups[depth_ + 1], " ", cluster_.DepthName(depth_ + 1),
                      groups[depth_ + 1] == 1 ? "" : "s", " below: -o yaml lists all)\n");
    }
    return text_;
  }

 private:
  void Line(const std::string& indent, bool last, const std::string& name, const Totals& totals) {
    absl::StrAppend(&text_, indent, unicode_ ? (last ? "└─ " : "├─ ") : (last ? "`- " : "|- "),
                    name, "  ", TotalsText(totals), "\n");
  }

  std::string NameOf(const Group& group) const {
    if (!group.name.empty()) return absl::StrCat(cluster_.DepthName(group.depth), " ", group.name);
    return absl::StrCat("(no ", cluster_.DepthName(group.depth), ")");
  }

  void Children(int index, const std::string& indent) {
    const Group& group = cluster_.groups()[index];
    if (group.depth >= depth_) return;
    const bool nodes = group.depth + 1 == cluster_.node_depth();
    const int first = nodes ? group.first_node : group.first_child;
    const int end = nodes ? group.end_node : group.end_child;
    const int shown = std::min(end, first + static_cast<int>(kMostTreeLines));
    for (int i = first; i < shown; ++i) {
      const bool last = i + 1 == end;
      if (nodes) {
        Line(indent, last, cluster_.nodes()[i].name, TotalsOf(cluster_, i, i + 1));
        continue;
      }
      const Group& child = cluster_.groups()[i];
      Line(indent, last, NameOf(child), TotalsOf(cluster_, child.first_node, child.end_node));
      Children(i, absl::StrCat(indent, last ? "   " : unicode_ ? "│  " : "|  "));
    }
    if (shown < end) absl::StrAppend(&text_, indent, "… and ", end - shown, " more\n");
  }

  const Cluster& cluster_;
  bool unicode_;
  int depth_ = 0;
  std::string text_;
};

Json LinkJson(const Link& link) {
  return {{"bytes_per_second", link.bytes_per_second},
          {"latency_seconds", link.latency_seconds},
          {"oversubscription", link.oversubscription}};
}

}  // namespace

std::string TopologyTree(const Cluster& cluster, bool unicode) {
  const Totals all = TotalsOf(cluster, 0, static_cast<int>(cluster.nodes().size()));
  return absl::StrCat(TotalsText(all), "\n\n", LevelTable(cluster), "\n",
                      TreeText(cluster, unicode).Draw());
}

std::string TopologyTable(const Cluster& cluster) {
  std::vector<std::string> heading = {"NAME"};
  for (const std::string& level : cluster.levels()) heading.push_back(absl::AsciiStrToUpper(level));
  heading.insert(heading.end(), {"DEVICE", "DEVICES", "FREE", "HEALTHY"});
  std::vector<std::vector<std::string>> rows;
  for (const topology::Node& node : cluster.nodes()) {
    if (rows.size() == kMostRows) break;
    std::vector<std::string> row = {node.name};
    for (const std::string& value : node.at) row.push_back(value.empty() ? "-" : value);
    row.insert(row.end(), {node.kind, absl::StrCat(node.devices), absl::StrCat(node.free.size()),
                           node.healthy ? "yes" : "no"});
    rows.push_back(std::move(row));
  }
  std::string text = FormatTable(heading, rows);
  if (const size_t rest = cluster.nodes().size() - rows.size(); rest > 0) {
    absl::StrAppend(&text, "… and ", rest, " more nodes: -o yaml lists all\n");
  }
  return text;
}

Json ToJson(const Cluster& cluster) {
  const topology::Description description = cluster.ToDescription();
  const auto level = [](const std::string& name) { return name.empty() ? "root" : name; };
  Json json = {{"levels", description.levels},
               {"domain_level", level(description.domain_level)},
               {"pipeline_level", level(description.pipeline_level)},
               {"links", Json::object()},
               {"groups", Json::object()},
               {"nodes", Json::array()}};
  for (const auto& [name, link] : description.links) json["links"][name] = LinkJson(link);
  for (const std::string& name : description.levels) json["groups"][name] = 0;
  for (const Group& group : cluster.groups()) {
    if (group.depth == 0) continue;
    Json& count = json["groups"][cluster.DepthName(group.depth)];
    count = count.get<int>() + 1;
  }
  for (const topology::Node& node : cluster.nodes()) {
    Json at = Json::object();
    for (size_t i = 0; i < node.at.size(); ++i) {
      if (!node.at[i].empty()) at[description.levels[i]] = node.at[i];
    }
    json["nodes"].push_back({{"name", node.name},
                             {"at", at},
                             {"device", node.kind},
                             {"devices", node.devices},
                             {"free", node.free},
                             {"healthy", node.healthy}});
  }
  return json;
}

topology::Description DescribeTopology(const v1::Topology& map) {
  topology::Description description;
  description.levels = {map.levels().begin(), map.levels().end()};
  description.domain_level = map.domain_level();
  description.pipeline_level = map.pipeline_level();
  for (const auto& [level, link] : map.links()) {
    description.links[level] = {.bytes_per_second = link.bytes_per_second(),
                                .latency_seconds = link.latency_seconds(),
                                .oversubscription = link.oversubscription()};
  }
  for (const v1::Topology::Node& node : map.nodes()) {
    description.nodes.push_back({.name = node.name(),
                                 .kind = node.device(),
                                 .devices = node.devices(),
                                 .free = {node.free().begin(), node.free().end()},
                                 .healthy = node.healthy(),
                                 .at = {node.at().begin(), node.at().end()}});
  }
  return description;
}

}  // namespace strata::client
