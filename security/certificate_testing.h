// Certificates as others than our own authority make them, for tests.
#ifndef STRATA_SECURITY_CERTIFICATE_TESTING_H_
#define STRATA_SECURITY_CERTIFICATE_TESTING_H_

#include <string>

#include "security/authority.h"
#include "security/openssl.h"

namespace strata::security {

inline constexpr double kNow = 1'800'000'000;  // Unix time

struct Made {
  std::string names;  // in OpenSSL's words
  bool authority = false;
  const char* subject = "custom";
  double end = kNow + 86400;
};

inline void AddExtension(X509* made, X509* by, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, by, made, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  X509_add_ext(made, extension.get(), -1);
}

// A certificate for this key, signed by `issuer`.
inline std::string Make(const KeyPair& issuer, const Made& as, const std::string& key_pem) {
  const Bio key_bio = Reading(key_pem);
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  const Bio issuer_bio = Reading(issuer.certificate);
  const Certificate by(PEM_read_bio_X509(issuer_bio.get(), nullptr, nullptr, nullptr));
  const Bio sign_bio = Reading(issuer.private_key);
  const Key sign(PEM_read_bio_PrivateKey(sign_bio.get(), nullptr, nullptr, nullptr));
  const Certificate made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 7);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), static_cast<time_t>(kNow - 86400));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), static_cast<time_t>(as.end));
  X509_set_pubkey(made.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(as.subject), -1, -1, 0);
  X509_set_issuer_name(made.get(), X509_get_subject_name(by.get()));
  if (!as.names.empty()) AddExtension(made.get(), by.get(), NID_subject_alt_name, as.names);
  if (as.authority) {
    AddExtension(made.get(), by.get(), NID_basic_constraints, "critical,CA:TRUE");
    AddExtension(made.get(), by.get(), NID_key_usage, "critical,keyCertSign");
  }
  X509_sign(made.get(), sign.get(), EVP_sha256());
  const Bio out = Writing();
  PEM_write_bio_X509(out.get(), made.get());
  return TextOf(out.get());
}

inline std::string Custom(const KeyPair& issuer, const std::string& names,
                          const std::string& key_pem) {
  return Make(issuer, {.names = names}, key_pem);
}

// An authority below `issuer`.
inline KeyPair MakeBetween(const KeyPair& issuer, double end = kNow + 86400) {
  KeyPair between;
  between.private_key = *MakePrivateKey();
  between.certificate = Make(
      issuer,
      {.names = "URI:spiffe://prod/node/n0", .authority = true, .subject = "between", .end = end},
      between.private_key);
  return between;
}

}  // namespace strata::security

#endif  // STRATA_SECURITY_CERTIFICATE_TESTING_H_
