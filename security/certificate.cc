#include "security/certificate.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "security/openssl.h"

namespace strata::security {
namespace {

constexpr size_t kMostCertificates = 32;  // of a file or a chain
constexpr int kMostDepth = 8;             // authorities between a leaf and its root

std::vector<Certificate> ParseAll(absl::string_view pem) {
  std::vector<Certificate> all;
  const Bio bio = Reading(pem);
  while (all.size() < kMostCertificates) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    all.push_back(std::move(next));
  }
  ERR_clear_error();  // the end of the text is one
  return all;
}

double UnixTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  return static_cast<double>(timegm(&parts));
}

std::string SubjectOf(X509* certificate) {
  const Bio bio = Writing();
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  return TextOf(bio.get());
}

// Every URI that it is for.
std::vector<std::string> UrisOf(X509* certificate) {
  std::vector<std::string> uris;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

std::string SerialOf(X509* certificate) {
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* const text = number == nullptr ? nullptr : BN_bn2hex(number.get());
  const std::string serial = text == nullptr ? "" : text;
  OPENSSL_free(text);
  return serial;
}

absl::StatusOr<CertificateView> View(X509* certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (uris.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate of ", SubjectOf(certificate),
                     uris.empty() ? " names nobody: it has no URI" : " has several URIs",
                     " (one is needed, spiffe://CLUSTER/user/NAME, /node/NAME or /controller)"));
  }
  CertificateView view;
  ASSIGN_OR_RETURN(view.id, ParseSpiffeId(uris[0]));
  view.serial = SerialOf(certificate);
  view.begin = UnixTime(X509_get0_notBefore(certificate));
  view.end = UnixTime(X509_get0_notAfter(certificate));
  return view;
}

// What people know it by.
std::string NameOf(X509* certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  return uris.empty() ? SubjectOf(certificate) : uris[0];
}

// OpenSSL's verdict on `leaf` in words. `at`: the certificate that it is about.
absl::Status Refused(int error, X509* leaf, X509* at, double now) {
  const std::string who = absl::StrCat("the certificate of ", NameOf(at));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::UnauthenticatedError(
          absl::StrCat(who, " expired at ", FormatUnixTime(UnixTime(X509_get0_notAfter(at))),
                       ", it is ", FormatUnixTime(now), ": a new one is needed"));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::UnauthenticatedError(absl::StrCat(
          who, " is valid only from ", FormatUnixTime(UnixTime(X509_get0_notBefore(at))),
          " on, it is ", FormatUnixTime(now), " here: is a clock wrong?"));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::UnauthenticatedError(absl::StrCat("the certificate of ", NameOf(leaf),
                                                     " is not from this cluster's authority (",
                                                     X509_verify_cert_error_string(error), ")"));
    default:
      return absl::UnauthenticatedError(
          absl::StrCat(who, " is not accepted: ", X509_verify_cert_error_string(error)));
  }
}

// When the first of those that were verified ends.
double FirstEnd(X509_STORE_CTX* verification) {
  const STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(verification);
  double first = std::numeric_limits<double>::infinity();
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    first = std::min(first, UnixTime(X509_get0_notAfter(sk_X509_value(chain, i))));
  }
  return first;
}

absl::Status VerifyWith(const std::vector<Certificate>& chain, X509_STORE* roots, int purpose,
                        double now, double* valid_until) {
  const CertificateStack between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const Verification verification(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(verification.get(), roots, chain[0].get(), between.get()) != 1) {
    return OpenSslError("verifying a certificate");
  }
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(verification.get());
  X509_VERIFY_PARAM_set_time(parameters, static_cast<time_t>(std::floor(now)));
  X509_VERIFY_PARAM_set_depth(parameters, kMostDepth);
  X509_VERIFY_PARAM_set_purpose(parameters, purpose);
  // What stands in the roots' file is trusted, also where it is itself below another root.
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_PARTIAL_CHAIN);
  const bool good = X509_verify_cert(verification.get()) == 1;
  ERR_clear_error();
  if (good && valid_until != nullptr) *valid_until = FirstEnd(verification.get());
  if (good) return absl::OkStatus();
  X509* const at = X509_STORE_CTX_get_current_cert(verification.get());
  return Refused(X509_STORE_CTX_get_error(verification.get()), chain[0].get(),
                 at == nullptr ? chain[0].get() : at, now);
}

absl::StatusOr<CertificateView> VerifiedView(const std::vector<Certificate>& chain,
                                             X509_STORE* roots, Side side, double now,
                                             double* valid_until) {
  const int purpose = side == Side::kClient ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER;
  RETURN_IF_ERROR(VerifyWith(chain, roots, purpose, now, valid_until));
  absl::StatusOr<CertificateView> view = View(chain[0].get());
  if (!view.ok()) return absl::UnauthenticatedError(view.status().message());
  return view;
}

std::string DigestOfKey(X509* certificate) {
  return DigestOfPublicKey(X509_get_X509_PUBKEY(certificate));
}

constexpr char kNoCertificate[] = "there is no certificate (PEM)";

}  // namespace

absl::StatusOr<CertificateView> VerifyChain(absl::string_view chain, absl::string_view roots,
                                            Side side, double now, double* valid_until) {
  const std::vector<Certificate> shown = ParseAll(chain);
  if (shown.empty()) return absl::UnauthenticatedError(kNoCertificate);
  const CertificateStore store(X509_STORE_new());
  for (const Certificate& root : ParseAll(roots)) X509_STORE_add_cert(store.get(), root.get());
  return VerifiedView(shown, store.get(), side, now, valid_until);
}

absl::StatusOr<PinnedChain> VerifyPinnedChain(absl::string_view chain, absl::string_view key_digest,
                                              double now) {
  const std::vector<Certificate> shown = ParseAll(chain);
  if (shown.empty()) return absl::UnauthenticatedError(kNoCertificate);
  for (const Certificate& root : shown) {
    // Only an authority stands for others: a leaf's own key is no pin.
    if (X509_check_ca(root.get()) != 1 || DigestOfKey(root.get()) != key_digest) continue;
    const CertificateStore store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), root.get());
    PinnedChain pinned;
    ASSIGN_OR_RETURN(pinned.leaf, VerifiedView(shown, store.get(), Side::kServer, now, nullptr));
    const Bio bio = Writing();
    if (PEM_write_bio_X509(bio.get(), root.get()) != 1) return OpenSslError("a root as PEM");
    pinned.root = TextOf(bio.get());
    return pinned;
  }
  return absl::UnauthenticatedError(
      absl::StrCat("the authority behind ", NameOf(shown[0].get()), " is not the one of ",
                   key_digest, " (or the server does not show it with its certificate)"));
}

absl::StatusOr<CertificateView> ReadCertificate(absl::string_view pem) {
  const std::vector<Certificate> all = ParseAll(pem);
  if (all.empty()) return absl::InvalidArgumentError(kNoCertificate);
  return View(all[0].get());
}

absl::StatusOr<std::string> KeyDigest(absl::string_view pem) {
  const std::vector<Certificate> all = ParseAll(pem);
  if (all.empty()) return absl::InvalidArgumentError(kNoCertificate);
  return DigestOfKey(all[0].get());
}

absl::Status CheckKeyMatches(absl::string_view pem, absl::string_view private_key) {
  const std::vector<Certificate> all = ParseAll(pem);
  if (all.empty()) return absl::FailedPreconditionError(kNoCertificate);
  const Bio bio = Reading(private_key);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) {
    ERR_clear_error();
    return absl::FailedPreconditionError("there is no private key (PEM)");
  }
  const bool match = X509_check_private_key(all[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (match) return absl::OkStatus();
  return absl::FailedPreconditionError("the private key is not that of the certificate");
}

std::string DigestOfPublicKey(X509_PUBKEY* key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(key, &bytes);
  if (size <= 0) return "";
  const std::string digest =
      Sha256(absl::string_view(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)));
  OPENSSL_free(bytes);
  return absl::StrCat("sha256:", absl::BytesToHexString(digest));
}

std::string Sha256(absl::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

absl::StatusOr<std::string> RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1) {
    return bytes;
  }
  return OpenSslError("random bytes");
}

std::string FormatUnixTime(double seconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                          absl::FromUnixSeconds(static_cast<int64_t>(std::floor(seconds))),
                          absl::UTCTimeZone());
}

}  // namespace strata::security
