// TLS over connections that this process accepted itself, for servers that are not gRPC's.
#ifndef STRATA_SECURITY_TLS_SERVER_H_
#define STRATA_SECURITY_TLS_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/tls_files.h"

namespace strata::security {

// One connection. Its handshake is part of the first Read.
class TlsSession {
 public:
  enum class Outcome { kMoved, kWantsRead, kWantsWrite, kOver };

  struct Parts;
  explicit TlsSession(std::unique_ptr<Parts> parts);
  ~TlsSession();  // the file stays open

  // As much as there is, at most `size` bytes; `moved` says how much that was.
  Outcome Read(char* bytes, size_t size, size_t& moved);
  Outcome Write(const char* bytes, size_t size, size_t& moved);
  // Tells the other side that nothing more comes, as far as that can be told at once.
  void End();
  // What the client showed, once something was read: PEM, leaf first; unverified, but for that it
  // has the key. Empty: it was not asked.
  std::string PeerChain() const;

 private:
  const std::unique_ptr<Parts> parts_;
};

// Thread-compatible.
class TlsServer {
 public:
  // `files`: a certificate and its key; the certificate need not name anybody. With an authority
  // clients must show a certificate: whose, and whether it is to be believed, is for the caller to
  // judge (PeerVerifier). FailedPrecondition: which file, and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Open(const TlsFiles& files);
  ~TlsServer();

  // `file`: a connection that does not block, the caller's still. Takes over changed files first,
  // if it has not looked within a second of `now` (Unix time); files that do not belong together
  // are on their way, and what was there before serves on. Internal: no memory.
  absl::StatusOr<std::unique_ptr<TlsSession>> Begin(int file, double now);

 private:
  struct Context;
  TlsServer(const TlsFiles& files, std::unique_ptr<Context> context);

  const TlsFiles files_;
  std::unique_ptr<Context> context_;
  double looked_at_ = -1;  // Unix time
};

}  // namespace strata::security

#endif  // STRATA_SECURITY_TLS_SERVER_H_
