#include "controller/service/transport/transport_authenticator.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "security/credentials.h"

namespace strata::controller {
namespace {

constexpr absl::string_view kMungeScheme = "munge ";

}  // namespace

absl::StatusOr<Identity> TransportAuthenticator::Known(
    const grpc::ServerContextBase& context) const {
  const std::string peer = context.peer();
  if (options_.relay != nullptr && absl::StartsWith(peer, UnixRelay::kPeerPrefix)) {
    const std::shared_ptr<const Identity> user = options_.relay->Find(peer);
    if (user == nullptr) return NotKnown("the connection has ended");
    return *user;
  }
  Identity nobody;
  if (options_.certificates == nullptr) return nobody;
  const security::ShownCertificate shown = security::ShownBy(*context.auth_context());
  if (!shown.is_tls) return nobody;
  if (!shown.chain.empty()) return options_.certificates->Of(shown.chain);
  nobody.by = "tls";
  return nobody;
}

void TransportAuthenticator::Authenticate(const grpc::ServerContextBase& context, Done done) {
  absl::StatusOr<Identity> known = Known(context);
  const bool nobody = known.ok() && known->kind == Identity::Kind::kNobody;
  if (!nobody || options_.munge == nullptr) return done(std::move(known));
  const auto& metadata = context.client_metadata();
  const auto shown = metadata.find("authorization");
  if (shown == metadata.end()) {
    if (known->by == "none") known->by = "munge";
    return done(std::move(known));
  }
  absl::string_view credential(shown->second.data(), shown->second.size());
  if (!absl::ConsumePrefix(&credential, kMungeScheme)) {
    return done(NotKnown("authorization: only `munge CREDENTIAL` is understood"));
  }
  options_.munge->Decode(std::string(credential),
                         [done = std::move(done)](absl::StatusOr<Identity> user) {
                           if (!absl::IsUnauthenticated(user.status()))
                             return done(std::move(user));
                           done(NotKnown(user.status().message()));
                         });
}

}  // namespace strata::controller
