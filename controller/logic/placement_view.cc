#include "controller/logic/placement_view.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

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
  const std::string away =
      absl::StrCat("not heard from since this controller's start at ",
                   absl::FormatTime("%Y-%m-%d %H:%M:%S UTC",
                                    absl::FromUnixSeconds(static_cast<int64_t>(state.started_wall)),
                                    absl::UTCTimeZone()));
  for (const NodeEntry* node : state.nodes.Ordered()) {
    Placer::View::Node& shown = view.nodes.emplace_back();
    shown.name = node->name;
    shown.kind = node->kind;
    shown.devices = node->devices;
    shown.locality = LocalityPath(*node);
    if (state.IsAway(*node)) {
      shown.away = away;
    } else {
      view.total_devices += node->devices;
    }
    if (!node->TakesRanks()) continue;
    for (const int device : node->FreeDevices()) {
      const auto claim = claims.find({node->name, device});
      if (claim == claims.end() || claim->second == job) shown.free.push_back(device);
    }
  }
  return view;
}

int FreeIn(const Placer::View& view) {
  int free = 0;
  for (const Placer::View::Node& node : view.nodes) free += static_cast<int>(node.free.size());
  return free;
}

}  // namespace strata::controller
