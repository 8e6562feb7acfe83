// Identities from what each transport proves: the kernel's word about a Unix socket's other end.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_

#include "controller/service/authenticator.h"
#include "controller/service/unix_relay.h"

namespace strata::controller {

class TransportAuthenticator final : public Authenticator {
 public:
  // Borrowed; null: no Unix sockets.
  explicit TransportAuthenticator(const UnixRelay* relay) : relay_(relay) {}

  void Authenticate(const grpc::ServerContextBase& context, Done done) override;

 private:
  absl::StatusOr<Identity> Known(const grpc::ServerContextBase& context) const;

  const UnixRelay* const relay_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_
