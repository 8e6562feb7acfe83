// The streams of a simulation's chance (common::Random): a change in what one part draws does not
// move the others.
#ifndef STRATA_CONTROLLER_SIMULATOR_STREAMS_H_
#define STRATA_CONTROLLER_SIMULATOR_STREAMS_H_

#include <cstdint>

namespace strata::simulator {

enum Stream : uint64_t { kFailures = 1, kWorkload, kLatencies, kOperators };

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_STREAMS_H_
