// Ranks that are threads of one process: for tests, and for worlds of one rank.
#ifndef STRATA_COLLECTIVES_LOOPBACK_H_
#define STRATA_COLLECTIVES_LOOPBACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace strata::collectives {

// A link to slow messages down to, one out of each rank: messages leave it one after the other. For
// measurements of what hides communication.
struct LinkThrottle {
  double bytes_per_second = 0;  // 0: as fast as memory is copied
  double latency_seconds = 0;

  bool on() const { return bytes_per_second > 0 || latency_seconds > 0; }
  // Of a message on the link.
  double SecondsOf(int64_t bytes) const {
    return bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0;
  }
};

// `size` communicators of one world, index = rank; each may be used and destroyed by a thread of
// its own, in any order. At most `max_operations` are in flight on each. A rank that is destroyed
// while others wait for it leaves them waiting until they are cancelled.
std::vector<std::unique_ptr<Communicator>> LoopbackWorld(int size, int max_operations = 64,
                                                         const LinkThrottle& throttle = {});

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_LOOPBACK_H_
