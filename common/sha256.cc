#include "common/sha256.h"

#include <openssl/evp.h>

#include <cstdio>

#include "common/check.h"

namespace strata::common {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  STRATA_CHECK(context_ != nullptr);
  STRATA_CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Add(const void* bytes, size_t size) {
  STRATA_CHECK(EVP_DigestUpdate(context_, bytes, size) == 1);
}

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  STRATA_CHECK(EVP_DigestFinal_ex(context_, digest, &size) == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", digest[i]);
    text += digits;
  }
  return text;
}

}  // namespace strata::common
