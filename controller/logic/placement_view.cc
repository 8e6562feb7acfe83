#include "controller/logic/placement_view.h"

namespace strata::controller {

DeviceClaims ClaimsOfRecovering(const ClusterState& state) {
  DeviceClaims claims;
  for (const std::string& name : state.live) {
    const JobEntry& job = state.jobs.at(name);
    if (job.record.state() != v1::RECOVERING || job.claim_over) continue;
    for (const v1::RankPlace& place : job.record.placement()) {
      claims[{place.node(), place.device()}] = &job;
    }
  }
  return claims;
}

Placer::View ViewFor(ClusterState& state, const JobEntry* job, const DeviceClaims& claims) {
  Placer::View view;
  for (const NodeEntry* node : state.nodes.Ordered()) {
    view.total_devices += node->devices;
    Placer::View::Node& shown = view.nodes.emplace_back();
    shown.name = node->name;
    shown.kind = node->kind;
    shown.devices = node->devices;
    shown.locality = LocalityPath(*node);
    if (!node->Usable()) continue;
    for (const int device : node->FreeDevices()) {
      const auto claim = claims.find({node->name, device});
      if (claim == claims.end() || claim->second == job) shown.free.push_back(device);
    }
  }
  return view;
}

bool AnyFree(const ClusterState& state, const DeviceClaims& claims) {
  for (const auto& [name, node] : state.nodes.all()) {
    if (!node.Usable()) continue;
    for (const int device : node.FreeDevices()) {
      if (!claims.contains({name, device})) return true;
    }
  }
  return false;
}

}  // namespace strata::controller
