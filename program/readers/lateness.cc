#include "program/readers/lateness.h"

#include <algorithm>
#include <cstddef>

namespace strata::program {
namespace {

// Compute since a wait for communication, at the end of each compute action; 0 of others.
std::vector<double> ComputeSinceWaits(absl::Span<const Action> actions,
                                      absl::Span<const Span> spans) {
  std::vector<double> since(spans.size());
  double apart = 0, free_since = 0;
  for (size_t node = 0; node < spans.size(); ++node) {
    const size_t step = node / actions.size();
    const Action& action = actions[node % actions.size()];
    if (action.stream != Stream::kCompute) continue;
    for (const ActionDependency& dependency : action.dependencies) {
      if (step < static_cast<size_t>(dependency.steps_back)) continue;
      const size_t other = (step - dependency.steps_back) * actions.size() + dependency.action;
      if (actions[dependency.action].is_communication() && spans[other].end > free_since) apart = 0;
    }
    apart += spans[node].end - spans[node].begin;
    since[node] = apart;
    free_since = spans[node].end;
  }
  return since;
}

}  // namespace

std::vector<double> Lateness(absl::Span<const Action> actions, absl::Span<const Span> spans,
                             const std::function<double(size_t action, double apart)>& late) {
  const std::vector<double> since = ComputeSinceWaits(actions, spans);
  std::vector<double> lateness(spans.size());
  for (size_t node = 0; node < spans.size(); ++node) {
    const size_t step = node / actions.size(), a = node % actions.size();
    if (!actions[a].is_communication()) continue;
    double ready = 0, apart = 0;
    for (const ActionDependency& dependency : actions[a].dependencies) {
      if (step < static_cast<size_t>(dependency.steps_back)) continue;
      const size_t other = (step - dependency.steps_back) * actions.size() + dependency.action;
      if (actions[dependency.action].stream != Stream::kCompute || spans[other].end <= ready)
        continue;
      ready = spans[other].end;
      apart = since[other];
    }
    if (apart > 0) lateness[node] = std::max(0.0, ready + late(a, apart) - spans[node].begin);
  }
  return lateness;
}

}  // namespace strata::program
