#include "controller/access/call_limits.h"

#include <algorithm>

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

bool OpenCounts::Add(const std::string& caller, int64_t most) {
  const auto found = counts_.find(caller);
  if ((found == counts_.end() ? 0 : found->second) >= most) return false;
  ++counts_[caller];
  return true;
}

void OpenCounts::Remove(const std::string& caller) {
  const auto found = counts_.find(caller);
  if (found != counts_.end() && --found->second == 0) counts_.erase(found);
}

bool CallMeter::AdmitCall(const std::string& caller, double per_second, double now) {
  const std::lock_guard lock(mutex_);
  return rates_.Take(caller, {per_second, std::max(1.0, per_second)}, now);
}

bool CallMeter::BeginCall(const std::string& caller, int64_t most) {
  const std::lock_guard lock(mutex_);
  return calls_.Add(caller, most);
}

void CallMeter::EndCall(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  calls_.Remove(caller);
}

bool CallMeter::OpenStream(const std::string& caller, int64_t most) {
  const std::lock_guard lock(mutex_);
  return streams_.Add(caller, most);
}

void CallMeter::CloseStream(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  streams_.Remove(caller);
}

}  // namespace strata::controller
