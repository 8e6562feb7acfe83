#include "controller/access/refusal_meter.h"

#include <algorithm>
#include <utility>

namespace strata::controller {

std::optional<int64_t> RefusalMeter::Admit(const std::string& caller, double now) {
  if (callers_.size() >= kMostCallers && !callers_.contains(caller)) {
    // Whoever was refused longest ago has his whole allowance again, or soon.
    callers_.erase(
        std::min_element(callers_.begin(), callers_.end(),
                         [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
  }
  Allowance& allowance = callers_.try_emplace(caller, Allowance{.at = now}).first->second;
  const double passed = std::max(0.0, now - std::exchange(allowance.at, now));
  allowance.left = std::min(kBurst, allowance.left + passed * kPerSecond);
  if (allowance.left < 1) {
    ++allowance.unrecorded;
    return std::nullopt;
  }
  --allowance.left;
  return std::exchange(allowance.unrecorded, 0);
}

}  // namespace strata::controller
