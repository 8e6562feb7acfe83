#include "common/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "common/digest_avx2.h"

namespace strata::common {
namespace {

// Of both widths: they differ in how they begin and end.
void Update(XXH3_state_t* state, const void* bytes, size_t size) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  avx2 ? UpdateByAvx2(state, bytes, size) : void(XXH3_64bits_update(state, bytes, size));
}

}  // namespace

struct DigestState {
  XXH3_state_t* xxh = XXH3_createState();
  ~DigestState() { XXH3_freeState(xxh); }
};

std::string DigestOf(const void* bytes, size_t size) {
  Digester digester;
  digester.Add(bytes, size);
  return digester.Finish();
}

Digester::Digester() : state_(std::make_unique<DigestState>()) { XXH3_128bits_reset(state_->xxh); }
Digester::~Digester() = default;
void Digester::Add(const void* bytes, size_t size) { Update(state_->xxh, bytes, size); }
std::string Digester::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

Checksum::Checksum() : state_(std::make_unique<DigestState>()) { Reset(); }
Checksum::~Checksum() = default;
void Checksum::Reset() { XXH3_64bits_reset(state_->xxh); }
void Checksum::Add(const void* bytes, size_t size) { Update(state_->xxh, bytes, size); }
uint64_t Checksum::Finish() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace strata::common
