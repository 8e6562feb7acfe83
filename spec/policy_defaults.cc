#include "spec/policy_defaults.h"

#include <algorithm>

namespace strata::spec {
namespace {

constexpr double kDaySeconds = 24 * 3600;
constexpr int64_t kMostNodes = 20'000;

// Adds "default" where it is missing, and puts the entries in order.
template <typename Entries>
void Complete(Entries& entries) {
  const bool has_default = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.name() == kDefaultName;
  });
  if (!has_default) entries.Add()->set_name(kDefaultName);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.name() < b.name(); });
}

// Agents that were told nothing use the same (hang_limits.h).
void CompleteTiming(v1::TimingPolicy& timing) {
  const v1::TimingPolicy said = timing;
  timing.set_heartbeat_seconds(1);
  timing.set_node_lost_seconds(4);
  timing.set_lease_seconds(30);
  timing.set_orphan_seconds(0);
  timing.set_prepare_seconds(60);
  timing.set_refused_seconds(60);
  timing.set_stop_seconds(5);
  timing.set_cancel_seconds(60);
  timing.set_suspect_seconds(3);
  timing.set_hang_seconds(60);
  timing.set_phase_seconds(60);
  timing.set_storage_seconds(600);
  timing.set_storage_bytes_per_second(1e8);
  timing.set_forget_node_seconds(7 * kDaySeconds);
  timing.MergeFrom(said);
}

}  // namespace

bool IsProjectRole(const std::string& role) {
  return role == "viewer" || role == "submitter" || role == "project-admin";
}

bool IsClusterRole(const std::string& role) {
  return role == "operator" || role == "admin" || role == "metrics";
}

v1::Policy CompletePolicy(v1::Policy policy) {
  Complete(*policy.mutable_projects());
  Complete(*policy.mutable_queues());
  for (v1::QueuePolicy& queue : *policy.mutable_queues()) {
    queue.set_priority(queue.priority());
    queue.set_max_devices(queue.max_devices());
    queue.set_preemptible(queue.preemptible());
  }
  for (v1::RoleBinding& binding : *policy.mutable_roles()) {
    if (IsProjectRole(binding.role()) && !binding.has_project()) binding.set_project("*");
  }
  v1::SchedulingPolicy& scheduling = *policy.mutable_scheduling();
  if (!scheduling.has_min_run_seconds()) scheduling.set_min_run_seconds(30);
  if (!scheduling.has_shrink_after_seconds()) scheduling.set_shrink_after_seconds(60);
  if (!scheduling.has_unknown_run_seconds()) scheduling.set_unknown_run_seconds(kDaySeconds);
  if (!scheduling.has_max_nodes()) scheduling.set_max_nodes(kMostNodes);
  scheduling.set_preemption_gap(scheduling.preemption_gap());
  scheduling.set_defragment(scheduling.defragment());
  CompleteTiming(*policy.mutable_timing());
  return policy;
}

}  // namespace strata::spec
