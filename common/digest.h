// Digests of bytes (XXH3, of 128 and 64 bits), for agreement between processes and damage on disk;
// not for secrets.
#ifndef STRATA_COMMON_DIGEST_H_
#define STRATA_COMMON_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace strata::common {

// Digest of one buffer, as 32 hexadecimal digits.
std::string DigestOf(const void* bytes, size_t size);
inline std::string DigestOf(absl::string_view text) { return DigestOf(text.data(), text.size()); }

struct DigestState;  // of digest.cc

// The same over a stream of buffers.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  void Add(const void* bytes, size_t size);
  std::string Finish() const;

 private:
  std::unique_ptr<DigestState> state_;
};

// Of 64 bits, a number, of one stream of buffers after the other.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void Reset();
  void Add(const void* bytes, size_t size);
  uint64_t Finish() const;

 private:
  std::unique_ptr<DigestState> state_;
};

}  // namespace strata::common

#endif  // STRATA_COMMON_DIGEST_H_
