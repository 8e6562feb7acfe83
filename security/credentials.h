// gRPC's credentials from TLS files. Whom each side believes is decided by certificate.h, so that
// both can say why not.
#ifndef STRATA_SECURITY_CREDENTIALS_H_
#define STRATA_SECURITY_CREDENTIALS_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "security/tls_files.h"

namespace strata::security {

// A client's, for new connections to the controller of its own cluster (of any that the authority
// stands behind, for clients without a certificate): others are refused, and the call's Unavailable
// says why. FailedPrecondition: as ReadTlsFiles.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files, double now);

// An authority's certificate (PEM), once a connection stands; else empty. Thread-safe.
class PinnedRoot {
 public:
  void Set(const std::string& pem) {
    const std::lock_guard lock(mutex_);
    pem_ = pem;
  }
  std::string Get() const {
    const std::lock_guard lock(mutex_);
    return pem_;
  }

 private:
  mutable std::mutex mutex_;
  std::string pem_;
};

// The same for a client that knows nothing of a cluster but its authority's key (certificate.h's
// KeyDigest), and has no certificate.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakePinnedCredentials(
    const std::string& key_digest, std::shared_ptr<PinnedRoot> root);

// What of the reason of a failed connection is ours; else the whole.
std::string TlsReason(const std::string& message);

// A server's: asks for a client's certificate, and leaves the judgement about it, and about those
// that have none, to who serves the calls. Takes over changed files within seconds; `files` are
// checked before.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files);

// Of a call's caller, PEM, leaf first; empty: it showed none. `is_tls`: its connection is TLS.
struct ShownCertificate {
  bool is_tls = false;
  std::string chain;
};
ShownCertificate ShownBy(const grpc::AuthContext& context);

}  // namespace strata::security

#endif  // STRATA_SECURITY_CREDENTIALS_H_
