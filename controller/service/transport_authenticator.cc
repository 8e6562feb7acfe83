#include "controller/service/transport_authenticator.h"

#include <memory>
#include <string>

#include "absl/strings/match.h"

namespace strata::controller {

absl::StatusOr<Identity> TransportAuthenticator::Known(
    const grpc::ServerContextBase& context) const {
  const std::string peer = context.peer();
  if (relay_ == nullptr || !absl::StartsWith(peer, UnixRelay::kPeerPrefix)) return Identity();
  const std::shared_ptr<const Identity> user = relay_->Find(peer);
  if (user == nullptr) return absl::UnauthenticatedError("the connection has ended");
  return *user;
}

void TransportAuthenticator::Authenticate(const grpc::ServerContextBase& context, Done done) {
  done(Known(context));
}

}  // namespace strata::controller
