#include "worker/trainer/calibration/drift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "program/passes/expand.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {
namespace {

using program::Action;

// The collective that compute, free since then, waited for before this action; null: none.
const program::Communication* WaitedFor(const std::vector<Action>& actions,
                                        const std::vector<TraceRecord>& records, size_t node,
                                        double free_since) {
  const size_t step = node / actions.size();
  double latest = free_since;
  const program::Communication* found = nullptr;
  for (const program::ActionDependency& dependency : actions[node % actions.size()].dependencies) {
    if (step < static_cast<size_t>(dependency.steps_back)) continue;
    const size_t other = (step - dependency.steps_back) * actions.size() + dependency.action;
    if (records[other].end <= latest) continue;
    const Action& action = actions[dependency.action];
    latest = records[other].end;
    found = action.mechanism == program::Mechanism::kCollective ? &action.communication : nullptr;
  }
  return found;
}

}  // namespace

std::vector<Waits> WaitsForOthers(const program::ProgramSet& set,
                                  absl::Span<const TraceRecord> trace, int64_t first_step,
                                  int64_t steps, const program::CostModel& costs) {
  const std::vector<Action> actions = program::Expand(set, set.programs[0]).actions;
  std::vector<TraceRecord> records(actions.size() * steps);
  for (const TraceRecord& record : trace) {
    const int64_t step = record.step - first_step;
    if (record.number == 0 || record.program != 0 || step < 0 || step >= steps) continue;
    records[step * actions.size() + record.action] = record;
  }
  std::vector<Waits> found(steps);
  double apart = 0, free_since = 0;
  for (size_t node = 0; node < records.size(); ++node) {
    if (actions[node % actions.size()].stream != program::Stream::kCompute) continue;
    const TraceRecord& record = records[node];
    const program::Communication* const awaited =
        apart > 0 ? WaitedFor(actions, records, node, free_since) : nullptr;
    if (awaited != nullptr) {
      Waits& step = found[node / actions.size()];
      step.seconds += record.begin - free_since -
                      costs.CollectiveSeconds(*awaited, {.ranks = set.groups.of(awaited->group)});
      step.roots += std::sqrt(apart);
      apart = 0;
    }
    apart += record.end - record.begin;
    free_since = record.end;
  }
  return found;
}

double DriftOf(absl::Span<const Waits> all) {
  std::vector<double> found;
  for (const Waits& each : all) {
    if (each.roots > 0) found.push_back(each.seconds / each.roots);
  }
  return std::max(0.0, Median(std::move(found)));
}

}  // namespace strata::worker
