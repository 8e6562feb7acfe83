// Certificates: what they say, and whether they are to be believed.
#ifndef STRATA_SECURITY_CERTIFICATE_H_
#define STRATA_SECURITY_CERTIFICATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "security/spiffe_id.h"

namespace strata::security {

struct CertificateView {
  SpiffeId id;
  std::string serial;  // number, hexadecimal, as openssl x509 -serial writes it
  double begin = 0;    // Unix time in seconds, of its validity
  double end = 0;
  bool operator==(const CertificateView& other) const = default;
};

// As what the other side of a connection shows it.
enum class Side { kClient, kServer };

// The first certificate of `chain` (PEM, leaf first, then those between it and the root), if one of
// `roots` (PEM) stands behind it at `now` (Unix time) and it names one SPIFFE ID. Unauthenticated:
// why not, with its name.
// `valid_until`: set to when the first certificate of those up to the root ends, unless null.
absl::StatusOr<CertificateView> VerifyChain(absl::string_view chain, absl::string_view roots,
                                            Side side, double now, double* valid_until = nullptr);
// The same without a root at hand: one of the chain's authorities must have the public key of this
// digest (KeyDigest). Returns that authority's certificate too, as PEM.
struct PinnedChain {
  CertificateView leaf;
  std::string root;
};
absl::StatusOr<PinnedChain> VerifyPinnedChain(absl::string_view chain, absl::string_view key_digest,
                                              double now);

// What the first certificate says, unverified. InvalidArgument: it is none, or names nobody.
absl::StatusOr<CertificateView> ReadCertificate(absl::string_view pem);
// "sha256:" and 64 hexadecimal digits: of the public key (SubjectPublicKeyInfo, DER) of the first
// certificate.
absl::StatusOr<std::string> KeyDigest(absl::string_view pem);
// FailedPrecondition: the private key (PEM) is not that of the first certificate.
absl::Status CheckKeyMatches(absl::string_view pem, absl::string_view private_key);

// SHA-256 as 32 bytes.
std::string Sha256(absl::string_view bytes);
// `count` bytes that nobody can guess. Internal: the system gives none.
absl::StatusOr<std::string> RandomBytes(size_t count);

// "2026-11-23T07:30:00Z".
std::string FormatUnixTime(double seconds);

}  // namespace strata::security

#endif  // STRATA_SECURITY_CERTIFICATE_H_
