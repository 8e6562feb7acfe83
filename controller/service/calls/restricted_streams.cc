#include "controller/service/calls/restricted_streams.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "controller/logic/refusal.h"
#include "controller/service/reactor/policy_view.h"

namespace strata::controller {

void RestrictedStreams::Add(End end, double until) {
  if (streams_.size() >= prune_at_) {
    std::erase_if(streams_, [](const Stream& each) { return !each.end(absl::OkStatus()); });
    prune_at_ = std::max<size_t>(64, 2 * streams_.size());
  }
  streams_.push_back({std::move(end), until});
}

void RestrictedStreams::OnEffects(const Core& /*core*/, const Effects& effects) {
  if (ChangesPolicy(effects)) EndAll();
}

void RestrictedStreams::OnTick(const Core& /*core*/) {
  const double now = common::WallSeconds();
  std::erase_if(streams_, [now](const Stream& stream) {
    if (stream.until > now) return false;
    stream.end(
        Refusal(absl::StatusCode::kUnauthenticated, "CERTIFICATE_EXPIRED",
                "the certificate that began this stream is over: come again with a new one"));
    return true;
  });
}

// A policy that was said to be in force and could not be made durable is not any more.
void RestrictedStreams::OnLoad(const Core& /*core*/) { EndAll(); }

void RestrictedStreams::EndAll() {
  const absl::Status changed =
      Refusal(absl::StatusCode::kAborted, "POLICY_CHANGED",
              "the policy has changed, and with it perhaps what you may see: continue from the "
              "last message");
  for (const Stream& stream : std::exchange(streams_, {})) stream.end(changed);
}

}  // namespace strata::controller
