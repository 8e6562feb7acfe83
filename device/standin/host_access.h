// A host that touches device memory dies with SIGSEGV, as with a real device; here with a message.
#ifndef STRATA_DEVICE_STANDIN_HOST_ACCESS_H_
#define STRATA_DEVICE_STANDIN_HOST_ACCESS_H_

#include <cstdint>

namespace strata::standin {

// The range that counts as device memory; empty: none.
void WatchHostAccess(uint64_t begin, uint64_t bytes);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_HOST_ACCESS_H_
