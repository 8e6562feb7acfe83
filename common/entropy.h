// Random bits for names that must never come twice, such as a job's uid. They enter through
// constructors so that tests and simulations can supply their own.
#ifndef STRATA_COMMON_ENTROPY_H_
#define STRATA_COMMON_ENTROPY_H_

#include <cstdint>
#include <functional>
#include <string>

namespace strata::common {

// The next 64 bits.
using Entropy = std::function<uint64_t()>;

// The kernel's; ends the process when there are none. From any thread.
Entropy SystemEntropy();
// The same bits for the same seed: for tests and simulations. Of copies each goes on by itself.
Entropy SeededEntropy(uint64_t seed);

// So many random bytes, such as a nonce.
std::string DrawBytes(const Entropy& entropy, int bytes);

// A random UUID (RFC 9562, version 4): 122 of 128 random bits, in lower case.
std::string DrawUuid(const Entropy& entropy);

}  // namespace strata::common

#endif  // STRATA_COMMON_ENTROPY_H_
