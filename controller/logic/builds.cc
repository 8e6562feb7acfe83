#include "controller/logic/builds.h"

#include <utility>

namespace strata::controller {
namespace {

// Whether ranks could be started there, were it of the right build.
bool Counts(const NodeEntry& node) {
  return node.Usable() && !node.drained && !node.quarantined && !node.leaving;
}

std::string MostOf(std::map<std::string, int> devices, const std::string& before) {
  if (devices.size() > 1) devices.erase("");  // without a trainer, or of before builds were told
  auto best = devices.find(before);
  if (best == devices.end()) best = devices.begin();
  for (auto build = devices.begin(); build != devices.end(); ++build) {
    if (build->second > best->second) best = build;
  }
  return best->first;
}

}  // namespace

std::vector<NodeEntry*> ChooseBuilds(NodeTable& nodes, std::map<std::string, std::string>& chosen) {
  std::map<std::string, std::map<std::string, int>> devices;  // by kind and build
  for (const auto& [name, node] : nodes.all()) {
    if (Counts(node)) devices[node.kind][node.build] += node.devices;
  }
  for (const auto& [kind, builds] : devices) chosen[kind] = MostOf(builds, chosen[kind]);
  std::vector<NodeEntry*> changed;
  for (auto& [name, node] : nodes.all()) {
    const auto found = chosen.find(node.kind);
    const bool fits = found == chosen.end() || found->second == node.build;
    std::string left_out_for = fits ? "" : found->second;
    if (node.left_out_for == left_out_for) continue;
    node.left_out_for = std::move(left_out_for);
    nodes.Touch(node);
    changed.push_back(&node);
  }
  return changed;
}

}  // namespace strata::controller
