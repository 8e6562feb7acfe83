#include "client/local_cluster/cluster_nodes.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text_file.h"
#include "common/status_macros.h"
#include "spec/problems.h"
#include "topology/import/topology_file.h"

namespace strata::client {
namespace {

constexpr size_t kMostNodes = 1024;
constexpr size_t kLongestName = 63;
constexpr size_t kNamed = 4;  // nodes in a message

// What the controller takes as a node's name, and is no other process's.
bool IsNodeName(const std::string& name) {
  if (name.empty() || name.size() > kLongestName || name == "controller" || name == "supervisor") {
    return false;
  }
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0; };
  return plain(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return plain(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
         });
}

// "n0, n1 and 6 more".
std::string Named(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamed);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  return shown == names.size() ? text : absl::StrCat(text, " and ", names.size() - shown, " more");
}

absl::Status CheckNodes(const std::string& file, const topology::Description& description) {
  const auto refuse = [&file](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": nodes: ", what));
  };
  if (description.nodes.empty()) return refuse("there is none — a cluster has at least one");
  if (description.nodes.size() > kMostNodes) {
    return refuse(absl::StrCat(description.nodes.size(), " are more than the ", kMostNodes,
                               " that strata up starts on one machine — strata place plans for "
                               "clusters of any size"));
  }
  std::vector<std::string> other_kinds, bad_names, empty, bad_values;
  std::set<std::string> kinds;
  for (const topology::Node& node : description.nodes) {
    if (node.kind != "cpu") other_kinds.push_back(node.name), kinds.insert(node.kind);
    if (!IsNodeName(node.name)) bad_names.push_back(spec::Shown(node.name));
    if (node.devices < 1) empty.push_back(node.name);
    const bool odd = std::any_of(node.at.begin(), node.at.end(), [](const std::string& value) {
      return absl::StrContains(value, ',');
    });
    if (odd) bad_values.push_back(node.name);
  }
  if (!other_kinds.empty()) {
    return refuse(absl::StrCat(Named(other_kinds), " with device ", absl::StrJoin(kinds, ", "),
                               ": the agents that strata up starts have CPU devices only — write "
                               "device: cpu to play that cluster here, or plan for it with strata "
                               "place --topology ",
                               file));
  }
  if (!bad_names.empty()) {
    return refuse(absl::StrCat(Named(bad_names),
                               ": a node's name here is 1 to 63 letters, digits, '-', '.' and '_', "
                               "and not controller or supervisor"));
  }
  if (!empty.empty()) return refuse(absl::StrCat(Named(empty), ": at least 1 device is needed"));
  if (!bad_values.empty()) {
    return refuse(
        absl::StrCat(Named(bad_values), ": a value of `at` holds a comma — leave it out"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ClusterNode> PlainNodes(int count) {
  std::vector<ClusterNode> nodes;
  nodes.reserve(count);
  for (int i = 0; i < count; ++i) {
    nodes.push_back({.name = absl::StrCat("n", i), .locality = {{"domain", "local"}}});
  }
  return nodes;
}

absl::StatusOr<LocalTopology> ReadLocalTopology(const std::string& file) {
  LocalTopology local;
  local.file = file;
  ASSIGN_OR_RETURN(local.text, ReadTextFile(file, topology::kMostTopologyBytes, "topology file"));
  ASSIGN_OR_RETURN(const topology::Description description,
                   topology::ReadTopologyFile(local.text, file));
  RETURN_IF_ERROR(CheckNodes(file, description));
  std::vector<std::string> not_whole;
  for (const topology::Node& node : description.nodes) {
    ClusterNode& mine = local.nodes.emplace_back();
    mine.name = node.name;
    mine.devices = node.devices;
    for (size_t i = 0; i < node.at.size(); ++i) {
      if (!node.at[i].empty()) mine.locality[description.levels[i]] = node.at[i];
    }
    if (!node.healthy || static_cast<int>(node.free.size()) != node.devices) {
      not_whole.push_back(node.name);
    }
  }
  if (!not_whole.empty()) {
    local.notice = absl::StrCat(file, ": free and healthy of ", Named(not_whole),
                                " mean nothing here: the nodes start whole");
  }
  return local;
}

}  // namespace strata::client
