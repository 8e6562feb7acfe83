#include "common/entropy.h"

#include <sys/random.h>

#include <cstdio>

#include "common/check.h"
#include "common/rng.h"

namespace strata::common {

Entropy SystemEntropy() {
  return [] {
    uint64_t bits = 0;
    STRATA_CHECK(getentropy(&bits, sizeof(bits)) == 0);
    return bits;
  };
}

Entropy SeededEntropy(uint64_t seed) {
  return [seed, count = uint64_t{0}]() mutable { return MixBits(seed, ++count); };
}

std::string DrawBytes(const Entropy& entropy, int bytes) {
  std::string drawn;
  for (uint64_t bits = 0; static_cast<int>(drawn.size()) < bytes; bits >>= 8) {
    if (drawn.size() % sizeof(bits) == 0) bits = entropy();
    drawn.push_back(static_cast<char>(bits & 0xff));
  }
  return drawn;
}

std::string DrawUuid(const Entropy& entropy) {
  constexpr uint64_t kVersion = 0x4000, kVersionMask = 0xf000;
  constexpr uint64_t kVariant = uint64_t{2} << 62, kVariantMask = uint64_t{3} << 62;
  const uint64_t high = (entropy() & ~kVersionMask) | kVersion;
  const uint64_t low = (entropy() & ~kVariantMask) | kVariant;
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%012llx",
                static_cast<unsigned>(high >> 32), static_cast<unsigned>(high >> 16 & 0xffff),
                static_cast<unsigned>(high & 0xffff), static_cast<unsigned>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

}  // namespace strata::common
