// A cluster's own authority: makes its root and signs certificates. Sites that have another one
// (SPIRE, cert-manager) need it only for enrolling nodes by token.
#ifndef STRATA_SECURITY_AUTHORITY_H_
#define STRATA_SECURITY_AUTHORITY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "security/spiffe_id.h"

namespace strata::security {

// A new P-256 private key, PEM.
absl::StatusOr<std::string> MakePrivateKey();
// A PKCS #10 request, PEM, that proves possession of the key. Whom the certificate is for is said
// elsewhere, and decided by the authority.
absl::StatusOr<std::string> MakeSigningRequest(absl::string_view private_key);
// As certificate.h's KeyDigest, of a request's key. InvalidArgument: it is none.
absl::StatusOr<std::string> RequestKeyDigest(absl::string_view signing_request);

struct KeyPair {
  std::string certificate;  // PEM, leaf first, then the root
  std::string private_key;  // PEM
};

// Thread-safe.
class Authority {
 public:
  // A root for this cluster, ten years from `now` (Unix time) on. InvalidArgument: no such name.
  static absl::StatusOr<KeyPair> MakeRoot(const std::string& cluster, double now);
  // FailedPrecondition: these are not a root's certificate with its key, or its certificate names
  // no cluster.
  static absl::StatusOr<std::unique_ptr<Authority>> Open(const KeyPair& root);
  ~Authority();

  const std::string& cluster() const { return cluster_; }
  const std::string& root() const { return root_; }              // certificate, PEM
  const std::string& key_digest() const { return key_digest_; }  // certificate.h's KeyDigest

  // A certificate for path (node/NAME, user/NAME, controller) and the key of `signing_request`,
  // PEM, with the root after it: from an hour before `now` (a twelfth of `seconds` if that is
  // less), for clocks that differ, to `seconds` after it, but no longer than the root's. Only that
  // of the controller serves. InvalidArgument: the request is none, its signature is wrong, or its
  // key is too weak. Not before `not_before`, for names whose earlier certificates are refused.
  absl::StatusOr<std::string> Sign(absl::string_view signing_request, const std::string& path,
                                   double now, double seconds, double not_before = 0) const;
  // The same with a new key.
  absl::StatusOr<KeyPair> Issue(const std::string& path, double now, double seconds) const;

 private:
  struct Parts;
  explicit Authority(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
  std::string cluster_;
  std::string root_;
  std::string key_digest_;
};

}  // namespace strata::security

#endif  // STRATA_SECURITY_AUTHORITY_H_
