// Ranks that are threads of one process: for tests, and for worlds of one rank.
#ifndef STRATA_COLLECTIVES_LOOPBACK_H_
#define STRATA_COLLECTIVES_LOOPBACK_H_

#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace strata::collectives {

// `size` communicators of one world, index = rank; each may be used and destroyed by a thread of
// its own, in any order. At most `max_operations` are in flight on each. A rank that is destroyed
// while others wait for it leaves them waiting until they are cancelled.
std::vector<std::unique_ptr<Communicator>> LoopbackWorld(int size, int max_operations = 64);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_LOOPBACK_H_
