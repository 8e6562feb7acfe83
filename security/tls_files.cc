#include "security/tls_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::security {
namespace {

constexpr size_t kMostPemBytes = size_t{1} << 20;
constexpr size_t kMostKnown = 65536;  // chains: all nodes of a large cluster, and its users
constexpr double kLookEvery = 1;      // seconds, at the authority's file

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::StatusOr<std::string> ReadPemFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Wrong(path, std::strerror(errno));
  const absl::Cleanup closer = [file] { close(file); };
  std::string text;
  char bytes[16 << 10];
  for (;;) {
    const ssize_t size = read(file, bytes, sizeof(bytes));
    if (size == 0) return text;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Wrong(path, std::strerror(errno));
    text.append(bytes, static_cast<size_t>(size));
    if (text.size() > kMostPemBytes) return Wrong(path, "is too large to be a PEM file");
  }
}

absl::Status WritePemFile(const std::string& path, absl::string_view text, int mode) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".new");
  const auto failed = [&](const char* what) {
    const int error = errno;
    unlink(temporary.c_str());
    return absl::InternalError(absl::StrCat(path, ": ", what, ": ", std::strerror(error)));
  };
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0) return failed("cannot be made");
  bool good = fchmod(file, mode) == 0;
  for (size_t done = 0; good && done < text.size();) {
    const ssize_t size = write(file, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    good = size > 0;
    done += good ? static_cast<size_t>(size) : 0;
  }
  good = good && fsync(file) == 0;
  const int error = errno;
  close(file);
  errno = error;
  if (!good) return failed("cannot be written");
  if (rename(temporary.c_str(), path.c_str()) != 0) return failed("cannot be replaced");
  return absl::OkStatus();
}

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files, Side side, double now) {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.authority, ReadPemFile(files.authority));
  if (!KeyDigest(material.authority).ok()) {
    return Wrong(files.authority, "there is no certificate (PEM) of an authority in it");
  }
  if (files.certificate.empty() != files.key.empty()) {
    return absl::FailedPreconditionError(
        files.key.empty() ? absl::StrCat(files.certificate, ": its private key is not given")
                          : absl::StrCat(files.key, ": its certificate is not given"));
  }
  if (files.certificate.empty()) return material;
  ASSIGN_OR_RETURN(material.certificate, ReadPemFile(files.certificate));
  ASSIGN_OR_RETURN(material.key, ReadPemFile(files.key));
  const absl::Status match = CheckKeyMatches(material.certificate, material.key);
  if (!match.ok())
    return Wrong(files.certificate, absl::StrCat(match.message(), " (", files.key, ")"));
  absl::StatusOr<CertificateView> own =
      VerifyChain(material.certificate, material.authority, side, now);
  if (!own.ok()) {
    return Wrong(files.certificate,
                 absl::StrCat(own.status().message(), " (authority: ", files.authority, ")"));
  }
  material.own = *std::move(own);
  return material;
}

PeerVerifier::PeerVerifier(std::string authority_file, Side side)
    : authority_file_(std::move(authority_file)), side_(side) {}

absl::StatusOr<CertificateView> PeerVerifier::Verify(const std::string& chain, double now) {
  const std::string digest = Sha256(chain);
  std::string roots;
  {
    const std::lock_guard lock(mutex_);
    Refresh(now);
    const auto found = known_.find(digest);
    if (found != known_.end()) {
      const Known& known = found->second;
      if (now >= known.view.begin && now <= known.valid_until) return known.view;
      known_.erase(found);  // the reason is told below
    }
    roots = roots_;
  }
  double valid_until = 0;
  ASSIGN_OR_RETURN(CertificateView view, VerifyChain(chain, roots, side_, now, &valid_until));
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  if (roots == roots_) known_[digest] = {view, valid_until};
  return view;
}

// A file that cannot be read leaves what was known: somebody may be replacing it.
void PeerVerifier::Refresh(double now) {
  if (looked_at_ >= 0 && std::abs(now - looked_at_) < kLookEvery) return;
  looked_at_ = now;
  absl::StatusOr<std::string> roots = ReadPemFile(authority_file_);
  if (!roots.ok() || *roots == roots_) return;
  roots_ = *std::move(roots);
  known_.clear();
}

}  // namespace strata::security
