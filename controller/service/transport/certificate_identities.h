// Identities from certificates of an authority: spiffe://CLUSTER/user/ann is users/ann.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_CERTIFICATE_IDENTITIES_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_CERTIFICATE_IDENTITIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/access/identity.h"
#include "security/tls_files.h"

namespace strata::controller {

// Thread-safe.
class CertificateIdentities {
 public:
  // `authority`: PEM file, which may change at any time. `cluster`: of whom it must be; empty: of
  // any that the authority stands behind.
  CertificateIdentities(const std::string& authority, const std::string& cluster)
      : verifier_(authority, security::Side::kClient), cluster_(cluster) {}

  // Of who has shown this chain (PEM, leaf first), by "tls". Unauthenticated: why it is not
  // believed.
  absl::StatusOr<Identity> Of(const std::string& chain);

 private:
  security::PeerVerifier verifier_;
  const std::string cluster_;
};

// Unauthenticated, with the reason UNAUTHENTICATED.
absl::Status NotKnown(absl::string_view why);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_CERTIFICATE_IDENTITIES_H_
