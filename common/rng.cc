#include "common/rng.h"

#include <cmath>

namespace strata::common {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0, c1 = static_cast<uint32_t>(p1), c2 = n2, c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

uint64_t MixBits(uint64_t a, uint64_t b) {
  const auto words = Philox(a, b, 0);
  return (uint64_t{words[1]} << 32) | words[0];
}

float NormalAt(uint64_t key, uint64_t index) {
  // One Philox block serves two neighbours: its first pair of words the even, its second the odd
  // one.
  const auto words = Philox(key, index / 2, 1);
  const int pair = index % 2 == 0 ? 0 : 2;
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(ToUniform(words[pair]))));
  const double angle = 6.283185307179586 * static_cast<double>(ToUniform(words[pair + 1]));
  return static_cast<float>(radius * std::cos(angle));
}

float SymmetricAt(uint64_t key, uint64_t index) {
  return 2 * ToUniform(Philox(key, index / 4, 2)[index % 4]) - 1;
}

}  // namespace strata::common
