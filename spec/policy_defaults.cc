#include "spec/policy_defaults.h"

#include <algorithm>

namespace strata::spec {
namespace {

constexpr double kDaySeconds = 24 * 3600;

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

}  // namespace

v1::Policy CompletePolicy(v1::Policy policy) {
  Complete(*policy.mutable_projects());
  Complete(*policy.mutable_queues());
  for (v1::QueuePolicy& queue : *policy.mutable_queues()) {
    queue.set_priority(queue.priority());
    queue.set_max_devices(queue.max_devices());
    queue.set_preemptible(queue.preemptible());
  }
  v1::SchedulingPolicy& scheduling = *policy.mutable_scheduling();
  if (!scheduling.has_min_run_seconds()) scheduling.set_min_run_seconds(30);
  if (!scheduling.has_shrink_after_seconds()) scheduling.set_shrink_after_seconds(60);
  if (!scheduling.has_unknown_run_seconds()) scheduling.set_unknown_run_seconds(kDaySeconds);
  scheduling.set_preemption_gap(scheduling.preemption_gap());
  scheduling.set_defragment(scheduling.defragment());
  return policy;
}

}  // namespace strata::spec
