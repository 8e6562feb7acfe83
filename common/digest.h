// A 128-bit digest of bytes (XXH3), for agreement between processes and damage on disk; not for
// secrets.
#ifndef STRATA_COMMON_DIGEST_H_
#define STRATA_COMMON_DIGEST_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace strata::common {

// Digest of one buffer, as 32 hexadecimal digits.
std::string DigestOf(const void* bytes, size_t size);
inline std::string DigestOf(absl::string_view text) { return DigestOf(text.data(), text.size()); }

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
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::common

#endif  // STRATA_COMMON_DIGEST_H_
