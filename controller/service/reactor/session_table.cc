#include "controller/service/reactor/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/logic/refusal.h"
#include "controller/service/reactor/policy_view.h"

namespace strata::controller {

absl::Status SessionTable::Add(uint64_t session, std::shared_ptr<AgentLink> link) {
  if (links_.size() >= kMostSessions) {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_SESSIONS",
                   absl::StrCat(links_.size(), " agents are connected already"));
  }
  links_[session] = std::move(link);
  return absl::OkStatus();
}

void SessionTable::OnEffects(const Core& core, const Effects& effects) {
  for (const Outgoing& outgoing : effects.messages) {
    const auto found = links_.find(outgoing.session);
    if (found != links_.end()) found->second->Send(outgoing.message);
  }
  for (const Effects::Refused& refused : effects.refused) {
    const auto found = links_.find(refused.session);
    if (found != links_.end()) found->second->End(refused.status);
  }
  if (!ChangesPolicy(effects) && effects.deleted_nodes.empty()) return;
  for (const auto& [session, link] : links_) {
    if (const absl::Status believed = link->CheckBelieved(core); !believed.ok())
      link->End(believed);
  }
}

void SessionTable::OnTick(const Core& /*core*/) {
  const double now = common::WallSeconds();
  for (const auto& [session, link] : links_) {
    if (link->until() > now) continue;
    link->End(
        Refusal(absl::StatusCode::kUnauthenticated, "CERTIFICATE_EXPIRED",
                "the certificate that began this session is over: come again with a new one"));
  }
}

void SessionTable::EndAll(const absl::Status& status) {
  const auto links = std::exchange(links_, {});
  for (const auto& [session, link] : links) link->End(status);
}

void SessionTable::OnLoad(const Core& /*core*/) {
  EndAll(absl::UnavailableError("the controller has begun anew: register again"));
}

void SessionTable::OnStop() { EndAll(absl::UnavailableError("the controller is shutting down")); }

}  // namespace strata::controller
