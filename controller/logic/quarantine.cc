// Nodes that are to blame again and again take no new ranks, but never more than a few nodes: when
// much fails everywhere, it is not the nodes.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

constexpr size_t kMostFailures = 3;
constexpr double kWindowSeconds = 3600;
constexpr size_t kNodesPerQuarantine = 5;  // one of so many may be in quarantine

}  // namespace

void JobMachine::Blame(const JobEntry& job, const Failure& failure) {
  NodeEntry* node = failure.node.empty() ? nullptr : state_.nodes.Find(failure.node);
  if (node == nullptr || !failure.sure || !failure.counts || failure.permanent) return;
  while (!node->failures.empty() && node->failures.front().wall + kWindowSeconds < state_.wall) {
    node->failures.pop_front();
  }
  node->failures.push_back({state_.wall, job.record.name()});
  while (node->failures.size() > kMostFailures) node->failures.pop_front();
  if (node->failures.size() == kMostFailures && MayQuarantine(job, *node)) {
    node->quarantined = true;
    // Whoever sees the node reads it: what the job's ranks said is for those who see the job.
    node->quarantine_reason = absl::StrCat("to blame for ", kMostFailures,
                                           " failures within an hour; the last: ", failure.cause);
    state_.capacity_changed = true;
  }
  SaveNode(state_, *node, effects_);
}

// A job that has failed for good, on several nodes, was to blame itself.
void JobMachine::Exonerate(const JobEntry& job, const Failure& last) {
  const auto its = [&](const NodeEntry::Blame& blame) { return blame.job == job.record.name(); };
  std::set<NodeEntry*> blamed;
  for (auto& [name, node] : state_.nodes.all()) {
    if (std::any_of(node.failures.begin(), node.failures.end(), its)) blamed.insert(&node);
  }
  const bool elsewhere = !last.node.empty() && !blamed.contains(state_.nodes.Find(last.node));
  if (blamed.size() + (elsewhere ? 1 : 0) < 2) return;
  for (auto& [name, node] : state_.nodes.all()) {
    if (!blamed.contains(&node)) continue;
    state_.nodes.Touch(node);
    std::erase_if(node.failures, its);
    if (std::exchange(node.quarantined, false)) state_.capacity_changed = true;
    node.quarantine_reason.clear();
    SaveNode(state_, node, effects_);
  }
}

// Not when too many are already, and not when the job could run nowhere without it: a place that
// fails now and then is better than none.
bool JobMachine::MayQuarantine(const JobEntry& job, const NodeEntry& node) const {
  if (node.quarantined) return false;
  const auto& nodes = state_.scheduler.nodes;
  const auto quarantined = static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](auto* other) { return other->quarantined; }));
  if (quarantined >= std::max<size_t>(1, nodes.size() / kNodesPerQuarantine)) return false;
  scheduler::Occupancy rest = scheduler::Occupancy::Ideal(state_.scheduler.cluster);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeEntry& other = *nodes[i];
    if (&other == &node || other.drained || other.quarantined) rest.free[i] = 0;
  }
  return scheduler::Place(state_.scheduler.cluster, rest, job.shape).has_value();
}

}  // namespace strata::controller
