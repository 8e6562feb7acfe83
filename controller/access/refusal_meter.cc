#include "controller/access/refusal_meter.h"

namespace strata::controller {

std::optional<int64_t> RefusalMeter::Admit(const std::string& caller, bool is_known, double now) {
  const std::lock_guard lock(mutex_);
  const bool admitted = callers_.Take(caller, limits_.of_one, now) &&
                        (is_known || unknown_.Take("", limits_.of_unknown, now));
  auto counted = unrecorded_.find(caller);
  if (admitted) {
    if (counted == unrecorded_.end()) counted = unrecorded_.find("");
    if (counted == unrecorded_.end()) return 0;
    const int64_t count = counted->second;
    unrecorded_.erase(counted);
    return count;
  }
  const bool room = counted != unrecorded_.end() || unrecorded_.size() < TokenBuckets::kMostCallers;
  ++unrecorded_[room ? caller : ""];
  return std::nullopt;
}

}  // namespace strata::controller
