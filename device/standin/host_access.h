// A host that touches device memory dies with SIGSEGV, as with a real device; here with a message.
#ifndef STRATA_DEVICE_STANDIN_HOST_ACCESS_H_
#define STRATA_DEVICE_STANDIN_HOST_ACCESS_H_

#include <cstdint>
#include <vector>

namespace strata::standin {

// The range that counts as device memory; empty: none.
void WatchHostAccess(uint64_t begin, uint64_t bytes);

// A page of managed memory (kManagedPage bytes at this address), in that range: the host reaches
// it, or its access is noted, and from then on it does.
void AllowHost(uint64_t page, bool present);
// It is managed no more, and nobody's.
void ForbidHost(uint64_t page);
// Addresses of accesses that were noted since the last call.
std::vector<uint64_t> TakeHostFaults();

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_HOST_ACCESS_H_
