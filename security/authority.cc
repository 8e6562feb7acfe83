#include "security/authority.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "security/certificate.h"
#include "security/openssl.h"

namespace strata::security {
namespace {

constexpr double kRootSeconds = 10.0 * 365 * 86400;
// Clocks differ: certificates begin this much earlier, and short-lived ones a twelfth of their
// life.
constexpr double kEarlierSeconds = 3600;
constexpr int kLeastSecurityBits = 112;  // RSA 2048, P-224
constexpr int kSerialBytes = 16;

absl::StatusOr<std::string> PemOfKey(EVP_PKEY* key) {
  const Bio bio = Writing();
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("a private key as PEM");
  }
  return TextOf(bio.get());
}

absl::StatusOr<Key> ReadKey(absl::string_view pem) {
  const Bio bio = Reading(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key != nullptr) return key;
  ERR_clear_error();
  return absl::FailedPreconditionError("there is no private key (PEM)");
}

absl::Status Extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError(absl::StrCat("the certificate's extension ", value));
  }
  return absl::OkStatus();
}

// All that roots and leaves have in common. Times are Unix times.
absl::StatusOr<Certificate> Blank(const SpiffeId& id, EVP_PKEY* key, double begin, double end) {
  Certificate certificate(X509_new());
  X509* const made = certificate.get();
  ASSIGN_OR_RETURN(std::string serial, RandomBytes(kSerialBytes));
  serial[0] = static_cast<char>(serial[0] & 0x7f);  // positive
  BIGNUM* const number = BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                                   static_cast<int>(serial.size()), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made));
  BN_free(number);
  const std::string name = id.path.empty() ? absl::StrCat(id.cluster, " authority") : id.path;
  const bool good =
      X509_set_version(made, X509_VERSION_3) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(made), static_cast<time_t>(std::floor(begin))) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(made), static_cast<time_t>(std::floor(end))) != nullptr &&
      X509_set_pubkey(made, key) == 1 &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.substr(0, 64).c_str()),
                                 -1, -1, 0) == 1;
  if (!good) return OpenSslError("a certificate");
  return certificate;
}

absl::StatusOr<std::string> Signed(X509* certificate, EVP_PKEY* key) {
  if (X509_sign(certificate, key, EVP_sha256()) == 0) return OpenSslError("signing a certificate");
  const Bio bio = Writing();
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return OpenSslError("a certificate as PEM");
  return TextOf(bio.get());
}

absl::Status Extend(X509* certificate, X509* issuer,
                    std::initializer_list<std::pair<int, std::string>> extensions) {
  for (const auto& [kind, value] : extensions) {
    RETURN_IF_ERROR(Extend(certificate, issuer, kind, value));
  }
  return absl::OkStatus();
}

}  // namespace

struct Authority::Parts {
  Certificate certificate;
  Key key;
};

absl::StatusOr<std::string> MakePrivateKey() {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("a new key");
  return PemOfKey(key.get());
}

absl::StatusOr<std::string> MakeSigningRequest(absl::string_view private_key) {
  ASSIGN_OR_RETURN(const Key key, ReadKey(private_key));
  const SigningRequest request(X509_REQ_new());
  const bool good = X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                    X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                    X509_REQ_sign(request.get(), key.get(), EVP_sha256()) != 0;
  const Bio bio = Writing();
  if (!good || PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return OpenSslError("a signing request");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> RequestKeyDigest(absl::string_view signing_request) {
  const Bio bio = Reading(signing_request);
  const SigningRequest request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  X509_PUBKEY* const key = request == nullptr ? nullptr : X509_REQ_get_X509_PUBKEY(request.get());
  ERR_clear_error();
  if (key == nullptr) return absl::InvalidArgumentError("no signing request (PKCS #10, PEM)");
  return DigestOfPublicKey(key);
}

absl::StatusOr<KeyPair> Authority::MakeRoot(const std::string& cluster, double now) {
  ASSIGN_OR_RETURN(const SpiffeId id, ParseSpiffeId(SpiffeId{cluster, ""}.ToString()));
  if (!id.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(cluster, " is no name of a cluster"));
  }
  KeyPair root;
  ASSIGN_OR_RETURN(root.private_key, MakePrivateKey());
  ASSIGN_OR_RETURN(const Key key, ReadKey(root.private_key));
  ASSIGN_OR_RETURN(const Certificate made,
                   Blank(id, key.get(), now - kEarlierSeconds, now + kRootSeconds));
  X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
  RETURN_IF_ERROR(Extend(made.get(), made.get(),
                         {{NID_basic_constraints, "critical,CA:TRUE"},
                          {NID_key_usage, "critical,keyCertSign,cRLSign"},
                          {NID_subject_key_identifier, "hash"},
                          {NID_subject_alt_name, "URI:" + id.ToString()}}));
  ASSIGN_OR_RETURN(root.certificate, Signed(made.get(), key.get()));
  return root;
}

absl::StatusOr<std::unique_ptr<Authority>> Authority::Open(const KeyPair& root) {
  auto parts = std::make_unique<Parts>();
  const Bio bio = Reading(root.certificate);
  parts->certificate.reset(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  RETURN_IF_ERROR(CheckKeyMatches(root.certificate, root.private_key));
  ASSIGN_OR_RETURN(parts->key, ReadKey(root.private_key));
  const absl::StatusOr<CertificateView> view = ReadCertificate(root.certificate);
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  if (!view->id.path.empty() || X509_check_ca(parts->certificate.get()) != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate of ", view->id.ToString(), " is no authority's"));
  }
  std::unique_ptr<Authority> authority(new Authority(std::move(parts)));
  const Bio out = Writing();
  PEM_write_bio_X509(out.get(), authority->parts_->certificate.get());
  authority->root_ = TextOf(out.get());
  authority->cluster_ = view->id.cluster;
  ASSIGN_OR_RETURN(authority->key_digest_, KeyDigest(root.certificate));
  return authority;
}

Authority::Authority(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Authority::~Authority() = default;

absl::StatusOr<std::string> Authority::Sign(absl::string_view signing_request,
                                            const std::string& path, double now, double seconds,
                                            double not_before) const {
  ASSIGN_OR_RETURN(const SpiffeId id, ParseSpiffeId(SpiffeId{cluster_, path}.ToString()));
  const Bio bio = Reading(signing_request);
  const SigningRequest request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* const key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  const bool proven = key != nullptr && X509_REQ_verify(request.get(), key) == 1;
  ERR_clear_error();
  if (!proven) {
    return absl::InvalidArgumentError("no signing request (PKCS #10, PEM) with a good signature");
  }
  if (EVP_PKEY_get_security_bits(key) < kLeastSecurityBits) {
    return absl::InvalidArgumentError("the signing request's key is too weak: use P-256");
  }
  X509* const issuer = parts_->certificate.get();
  ASSIGN_OR_RETURN(const CertificateView root, ReadCertificate(root_));
  ASSIGN_OR_RETURN(
      const Certificate made,
      Blank(id, key, std::max(not_before, now - std::min(kEarlierSeconds, seconds / 12)),
            std::min(now + seconds, root.end)));
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
  const bool serves = path == kControllerPath;
  RETURN_IF_ERROR(Extend(made.get(), issuer,
                         {{NID_basic_constraints, "critical,CA:FALSE"},
                          {NID_key_usage, "critical,digitalSignature"},
                          {NID_ext_key_usage, serves ? "serverAuth,clientAuth" : "clientAuth"},
                          {NID_subject_key_identifier, "hash"},
                          {NID_authority_key_identifier, "keyid"},
                          {NID_subject_alt_name, "URI:" + id.ToString()}}));
  ASSIGN_OR_RETURN(const std::string leaf, Signed(made.get(), parts_->key.get()));
  return leaf + root_;
}

absl::StatusOr<KeyPair> Authority::Issue(const std::string& path, double now,
                                         double seconds) const {
  KeyPair issued;
  ASSIGN_OR_RETURN(issued.private_key, MakePrivateKey());
  ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(issued.private_key));
  ASSIGN_OR_RETURN(issued.certificate, Sign(request, path, now, seconds));
  return issued;
}

}  // namespace strata::security
