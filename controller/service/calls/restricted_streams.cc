#include "controller/service/calls/restricted_streams.h"

#include <algorithm>
#include <utility>

#include "controller/logic/refusal.h"

namespace strata::controller {

void RestrictedStreams::Add(End end) {
  if (streams_.size() >= prune_at_) {
    std::erase_if(streams_, [](const End& each) { return !each(absl::OkStatus()); });
    prune_at_ = std::max<size_t>(64, 2 * streams_.size());
  }
  streams_.push_back(std::move(end));
}

void RestrictedStreams::OnEffects(const Core& /*core*/, const Effects& effects) {
  const bool changed = std::any_of(
      effects.writes.begin(), effects.writes.end(),
      [](const Write& write) { return write.table == "meta" && write.key == "policy"; });
  if (changed) EndAll();
}

// A policy that was said to be in force and could not be made durable is not any more.
void RestrictedStreams::OnLoad(const Core& /*core*/) { EndAll(); }

void RestrictedStreams::EndAll() {
  const absl::Status changed =
      Refusal(absl::StatusCode::kAborted, "POLICY_CHANGED",
              "the policy has changed, and with it perhaps what you may see: continue from the "
              "last message");
  for (const End& end : std::exchange(streams_, {})) end(changed);
}

}  // namespace strata::controller
