// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (key, counter), so any thread, rank or restart
// makes the same ones.
#ifndef STRATA_COMMON_RNG_H_
#define STRATA_COMMON_RNG_H_

#include <array>
#include <cstdint>

namespace strata::common {

// Four independent 32-bit words.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// A 64-bit mix of two words (first two words of Philox): for deriving keys and for hashing small
// tuples.
uint64_t MixBits(uint64_t a, uint64_t b);

// Uniform in (0, 1], from 32 bits.
inline float ToUniform(uint32_t word) { return (static_cast<float>(word >> 8) + 1.0f) * 0x1p-24f; }

// Element `index` of the standard normal series named by `key` (Box–Muller on two words).
float NormalAt(uint64_t key, uint64_t index);

// Element `index` of the series named by `key`, uniform in (-1, 1].
float SymmetricAt(uint64_t key, uint64_t index);

}  // namespace strata::common

#endif  // STRATA_COMMON_RNG_H_
