// Identities from what each transport proves: the kernel's word about a Unix socket's other end, a
// certificate of the cluster's authority, a MUNGE credential in a call's metadata
// (`authorization: munge CREDENTIAL`).
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_TRANSPORT_AUTHENTICATOR_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_TRANSPORT_AUTHENTICATOR_H_

#include <memory>
#include <string>

#include "controller/service/transport/authenticator.h"
#include "controller/service/transport/certificate_identities.h"
#include "controller/service/transport/munge_decoder.h"
#include "controller/service/transport/unix_relay.h"

namespace strata::controller {

// Callers over TLS without a certificate are nobody, by "tls"; with MUNGE they may show a
// credential, and callers over plain connections, who must, are else nobody by "munge".
class TransportAuthenticator final : public Authenticator {
 public:
  struct Options {
    const UnixRelay* relay = nullptr;                     // borrowed; null: no Unix sockets
    std::unique_ptr<CertificateIdentities> certificates;  // null: no TLS
    std::unique_ptr<MungeDecoder> munge;                  // null: credentials are not looked at
    bool tells_callers_apart = false;
  };
  explicit TransportAuthenticator(Options options) : options_(std::move(options)) {}

  void Authenticate(const grpc::ServerContextBase& context, Done done) override;
  bool tells_callers_apart() const override { return options_.tells_callers_apart; }

 private:
  absl::StatusOr<Identity> Known(const grpc::ServerContextBase& context) const;

  const Options options_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_TRANSPORT_AUTHENTICATOR_H_
