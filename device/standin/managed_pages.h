// Managed memory by its pages: each is on the host or on one device.
#ifndef STRATA_DEVICE_STANDIN_MANAGED_PAGES_H_
#define STRATA_DEVICE_STANDIN_MANAGED_PAGES_H_

#include <cstdint>

namespace strata::standin {

// What the driver moves together, at multiples of it.
inline constexpr uint64_t kManagedPage = uint64_t{64} << 10;
inline constexpr int kOnHost = -1;

// Pages that moved; those that are where they are asked for do not count.
struct PageMoves {
  int64_t to_device = 0, to_host = 0;  // by prefetches
  int64_t faults = 0;                  // by accesses
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_MANAGED_PAGES_H_
