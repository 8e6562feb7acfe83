// The files that make a process somebody: its certificate and key, and whom it believes.
#ifndef STRATA_SECURITY_TLS_FILES_H_
#define STRATA_SECURITY_TLS_FILES_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "security/certificate.h"

namespace strata::security {

// Paths of PEM files. Without an authority there is no TLS; without a certificate (and its key) a
// client is nobody known.
struct TlsFiles {
  std::string certificate;  // leaf first, then those between it and the root
  std::string key;
  std::string authority;  // roots
  bool enabled() const { return !authority.empty(); }
};

// What they hold.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string authority;
  CertificateView own;  // path empty: without a certificate
};

// Reads and checks them: that they can be read, belong together, and would be believed at `now`
// (Unix time) as `side`. FailedPrecondition: which file, what is wrong, what to do.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files, Side side, double now);

// One whole file. FailedPrecondition: it cannot be read, and why.
absl::StatusOr<std::string> ReadPemFile(const std::string& path);
// A new file with this mode, whole or not at all, in place of one that is there. Internal.
absl::Status WritePemFile(const std::string& path, absl::string_view text, int mode);

// Judges what others show, by an authority's file that may change at any time. Thread-safe.
class PeerVerifier {
 public:
  PeerVerifier(std::string authority_file, Side side);

  // As VerifyChain. What was found good is remembered until the file changes, or it or an authority
  // between it and the root ends.
  absl::StatusOr<CertificateView> Verify(const std::string& chain, double now);

 private:
  struct Known {
    CertificateView view;
    double valid_until = 0;  // Unix time
  };
  void Refresh(double now);

  const std::string authority_file_;
  const Side side_;
  std::mutex mutex_;  // guards what follows
  std::string roots_;
  double looked_at_ = -1;               // Unix time
  std::map<std::string, Known> known_;  // by SHA-256 of the chain
};

}  // namespace strata::security

#endif  // STRATA_SECURITY_TLS_FILES_H_
