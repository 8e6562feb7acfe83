#include "security/tls_server.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "security/certificate.h"
#include "security/openssl.h"

namespace strata::security {
namespace {

using SslContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Freed<SSL_free>>;

constexpr double kReloadEvery = 1;   // seconds
constexpr size_t kMostInChain = 32;  // certificates

// Whom the certificate names is judged by who serves: that the client has its key is seen here.
int AcceptForNow(X509_STORE_CTX* /*store*/, void* /*argument*/) { return 1; }

// The certificates of `pem`, the first of which is the server's own.
absl::Status UseCertificates(SSL_CTX* context, const std::string& pem) {
  const Bio bio = Reading(pem);
  for (size_t count = 0; count < kMostInChain; ++count) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    const bool used = count == 0 ? SSL_CTX_use_certificate(context, next.get()) == 1
                                 : SSL_CTX_add0_chain_cert(context, next.get()) == 1;
    if (!used) return OpenSslError("a certificate for TLS");
    if (count > 0) static_cast<void>(next.release());  // the context's
  }
  ERR_clear_error();  // the end of the text is one
  return absl::OkStatus();
}

absl::StatusOr<SslContext> MakeContext(const TlsMaterial& material, bool asks_clients) {
  SslContext context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return OpenSslError("TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);  // each shows a certificate
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  RETURN_IF_ERROR(UseCertificates(context.get(), material.certificate));
  const Bio bio = Reading(material.key);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return OpenSslError("a private key for TLS");
  }
  if (asks_clients) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_cert_verify_callback(context.get(), &AcceptForNow, nullptr);
  }
  return context;
}

absl::StatusOr<TlsMaterial> ReadMaterial(const TlsFiles& files) {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.certificate, ReadPemFile(files.certificate));
  ASSIGN_OR_RETURN(material.key, ReadPemFile(files.key));
  if (const absl::Status match = CheckKeyMatches(material.certificate, material.key); !match.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.certificate, ": ", match.message(), " (", files.key, ")"));
  }
  if (files.authority.empty()) return material;
  ASSIGN_OR_RETURN(material.authority, ReadPemFile(files.authority));
  if (KeyDigest(material.authority).ok()) return material;
  return absl::FailedPreconditionError(
      absl::StrCat(files.authority, ": there is no certificate (PEM) of an authority in it"));
}

TlsSession::Outcome OutcomeOf(SSL* ssl, int result) {
  const int error = SSL_get_error(ssl, result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return TlsSession::Outcome::kWantsRead;
  if (error == SSL_ERROR_WANT_WRITE) return TlsSession::Outcome::kWantsWrite;
  return TlsSession::Outcome::kOver;
}

int Length(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

struct TlsSession::Parts {
  Ssl ssl;
};

TlsSession::TlsSession(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TlsSession::~TlsSession() = default;

TlsSession::Outcome TlsSession::Read(char* bytes, size_t size, size_t& moved) {
  ERR_clear_error();
  const int count = SSL_read(parts_->ssl.get(), bytes, Length(size));
  moved = count > 0 ? static_cast<size_t>(count) : 0;
  return count > 0 ? Outcome::kMoved : OutcomeOf(parts_->ssl.get(), count);
}

TlsSession::Outcome TlsSession::Write(const char* bytes, size_t size, size_t& moved) {
  ERR_clear_error();
  const int count = SSL_write(parts_->ssl.get(), bytes, Length(size));
  moved = count > 0 ? static_cast<size_t>(count) : 0;
  return count > 0 ? Outcome::kMoved : OutcomeOf(parts_->ssl.get(), count);
}

void TlsSession::End() {
  static_cast<void>(SSL_shutdown(parts_->ssl.get()));
  ERR_clear_error();
}

std::string TlsSession::PeerChain() const {
  const Certificate leaf(SSL_get1_peer_certificate(parts_->ssl.get()));
  if (leaf == nullptr) return "";
  const Bio out = Writing();
  PEM_write_bio_X509(out.get(), leaf.get());
  const STACK_OF(X509)* const between = SSL_get_peer_cert_chain(parts_->ssl.get());
  for (int i = 0; i < sk_X509_num(between); ++i) {
    PEM_write_bio_X509(out.get(), sk_X509_value(between, i));
  }
  return TextOf(out.get());
}

struct TlsServer::Context {
  TlsMaterial material;
  SslContext ssl;
};

TlsServer::TlsServer(const TlsFiles& files, std::unique_ptr<Context> context)
    : files_(files), context_(std::move(context)) {}
TlsServer::~TlsServer() = default;

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Open(const TlsFiles& files) {
  auto context = std::make_unique<Context>();
  ASSIGN_OR_RETURN(context->material, ReadMaterial(files));
  ASSIGN_OR_RETURN(context->ssl, MakeContext(context->material, files.enabled()));
  return std::unique_ptr<TlsServer>(new TlsServer(files, std::move(context)));
}

absl::StatusOr<std::unique_ptr<TlsSession>> TlsServer::Begin(int file, double now) {
  if (looked_at_ < 0 || std::abs(now - looked_at_) >= kReloadEvery) {
    looked_at_ = now;
    absl::StatusOr<TlsMaterial> there = ReadMaterial(files_);
    const bool changed = there.ok() && (there->certificate != context_->material.certificate ||
                                        there->key != context_->material.key);
    if (changed) {
      absl::StatusOr<SslContext> made = MakeContext(*there, files_.enabled());
      if (made.ok()) *context_ = {*std::move(there), *std::move(made)};
    }
  }
  auto parts = std::make_unique<TlsSession::Parts>();
  parts->ssl.reset(SSL_new(context_->ssl.get()));
  if (parts->ssl == nullptr || SSL_set_fd(parts->ssl.get(), file) != 1) {
    return OpenSslError("a TLS connection");
  }
  SSL_set_accept_state(parts->ssl.get());
  return std::make_unique<TlsSession>(std::move(parts));
}

}  // namespace strata::security
