#include "controller/access/call_limits.h"

#include <algorithm>
#include <utility>

namespace strata::controller {
namespace {

// The larger of what two projects allow: none is the largest.
template <typename Number>
void Raise(bool has, Number value, std::optional<Number>& most) {
  if (!has) {
    most.reset();
  } else if (most.has_value()) {
    most = std::max(*most, value);
  }
}

}  // namespace

CallLimits LimitsOf(const Rights& rights, const v1::Policy& policy) {
  if (rights.unrestricted() || rights.roles().empty()) return {};
  CallLimits limits = {.calls_per_second = 0.0, .streams = 0};
  for (const HeldRole& held : rights.roles()) {
    const auto& projects = policy.projects();
    const auto project = std::find_if(projects.begin(), projects.end(), [&](const auto& each) {
      return each.name() == held.project;
    });
    if (project == projects.end()) return {};
    Raise(project->has_max_calls_per_second(), project->max_calls_per_second(),
          limits.calls_per_second);
    Raise(project->has_max_streams(), project->max_streams(), limits.streams);
  }
  return limits;
}

bool CallMeter::AdmitCall(const std::string& caller, double per_second, double now) {
  const std::lock_guard lock(mutex_);
  if (calls_.size() >= kMostCallers && !calls_.contains(caller)) {
    // Who called longest ago has his whole allowance again, or soon.
    calls_.erase(std::min_element(calls_.begin(), calls_.end(), [](const auto& a, const auto& b) {
      return a.second.at < b.second.at;
    }));
  }
  const double burst = std::max(1.0, per_second);
  Allowance& allowance = calls_.try_emplace(caller, Allowance{burst, now}).first->second;
  const double passed = std::max(0.0, now - std::exchange(allowance.at, now));
  allowance.left = std::min(burst, allowance.left + passed * per_second);
  if (allowance.left < 1) return false;
  --allowance.left;
  return true;
}

bool CallMeter::OpenStream(const std::string& caller, int64_t most) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(caller);
  if ((found == streams_.end() ? 0 : found->second) >= most) return false;
  ++streams_[caller];
  return true;
}

void CallMeter::CloseStream(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(caller);
  if (found != streams_.end() && --found->second == 0) streams_.erase(found);
}

}  // namespace strata::controller
