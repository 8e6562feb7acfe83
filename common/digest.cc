#include "common/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace strata::common {
namespace {

std::string Hex(XXH128_hash_t hash) {
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace

struct Digester::State {
  XXH3_state_t* xxh = XXH3_createState();
};

std::string DigestOf(const void* bytes, size_t size) { return Hex(XXH3_128bits(bytes, size)); }

Digester::Digester() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Digester::~Digester() { XXH3_freeState(state_->xxh); }
void Digester::Add(const void* bytes, size_t size) {
  XXH3_128bits_update(state_->xxh, bytes, size);
}
std::string Digester::Finish() const { return Hex(XXH3_128bits_digest(state_->xxh)); }

}  // namespace strata::common
