// SHA-256, for files whose digest people and other programs compare (sha256sum).
#ifndef STRATA_COMMON_SHA256_H_
#define STRATA_COMMON_SHA256_H_

#include <cstddef>
#include <string>

struct evp_md_ctx_st;

namespace strata::common {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* bytes, size_t size);
  // Of all that was added, hexadecimal, in lower case. Once, at the end.
  std::string Finish();

 private:
  evp_md_ctx_st* const context_;
};

}  // namespace strata::common

#endif  // STRATA_COMMON_SHA256_H_
