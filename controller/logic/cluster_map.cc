#include "controller/logic/cluster_map.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "controller/logic/names.h"

namespace strata::controller {
namespace {

constexpr char kDomain[] = "domain";

// Of the localities, outermost first. There is always a domain level, so that tensor groups do not
// span nodes unless somebody said that they may.
std::vector<std::string> FoundLevels(const NodeTable& nodes) {
  std::set<std::string> found = {kDomain};
  for (const auto& [name, node] : nodes.all()) {
    for (const auto& [level, value] : node.locality) found.insert(level);
  }
  for (const char* reserved : {"", "node", "device", "root"}) found.erase(reserved);
  std::vector<std::string> levels;
  for (const char* known : {"region", "zone", "rack", kDomain}) {
    if (found.erase(known) > 0) levels.push_back(known);
  }
  levels.insert(levels.end(), found.begin(), found.end());
  return levels;
}

}  // namespace

void NameLevels(const NodeTable& nodes, topology::Description& map) {
  if (!map.levels.empty()) return;
  map.levels = FoundLevels(nodes);
  map.domain_level = kDomain;
}

topology::Description DescribeCluster(const ClusterState& state) {
  topology::Description description = state.map;
  NameLevels(state.nodes, description);
  for (const auto& [name, node] : state.nodes.all()) {
    if (node.kind.empty() || node.devices == 0) continue;  // only its name is known yet
    topology::Node& described = description.nodes.emplace_back();
    described.name = ShortName(name);
    described.kind = node.kind;
    described.devices = std::min(node.devices, topology::kMostDevices);
    for (const int device : node.FreeDevices()) {
      if (device < described.devices) described.free.push_back(device);
    }
    described.healthy = node.TakesRanks();
    for (const std::string& level : description.levels) {
      const auto value = node.locality.find(level);
      described.at.push_back(value == node.locality.end() ? "" : value->second);
    }
  }
  return description;
}

v1::Topology ToProto(const absl::StatusOr<topology::Cluster>& cluster) {
  v1::Topology shown;
  if (!cluster.ok()) return shown;  // no agent can bring that about: see FoundLevels, Admit
  const topology::Description description = cluster->ToDescription();
  for (const std::string& level : description.levels) shown.add_levels(level);
  if (cluster->domain_depth() > 0)
    shown.set_domain_level(cluster->DepthName(cluster->domain_depth()));
  if (cluster->pipeline_depth() > 0) {
    shown.set_pipeline_level(cluster->DepthName(cluster->pipeline_depth()));
  }
  for (const auto& [level, link] : description.links) {
    v1::Topology::Link& told = (*shown.mutable_links())[level];
    told.set_bytes_per_second(link.bytes_per_second);
    told.set_latency_seconds(link.latency_seconds);
    told.set_oversubscription(link.oversubscription);
  }
  for (const topology::Node& node : description.nodes) {
    v1::Topology::Node& told = *shown.add_nodes();
    told.set_name(node.name);
    for (const std::string& value : node.at) told.add_at(value);
    told.set_device(node.kind);
    told.set_devices(node.devices);
    told.mutable_free()->Add(node.free.begin(), node.free.end());
    told.set_healthy(node.healthy);
  }
  return shown;
}

}  // namespace strata::controller
