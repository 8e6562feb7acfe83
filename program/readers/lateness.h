// Ranks that meet do not come at once: how late the last of them is.
#ifndef STRATA_PROGRAM_READERS_LATENESS_H_
#define STRATA_PROGRAM_READERS_LATENESS_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "program/passes/expand.h"
#include "program/readers/machine.h"

namespace strata::program {

// Per action of the steps that `spans` (of `actions`, in the order of RankTimes) covers: the
// seconds by which it begins to move bytes later than `spans` has it, as another member has not
// come; 0 of all but communication. `late`: seconds that ranks come after each other, given the
// action of one step and the seconds of compute since they were last together. They are together
// where compute waits for communication, and drift apart while compute goes on: what follows
// earlier communication, not compute, is not late.
std::vector<double> Lateness(absl::Span<const Action> actions, absl::Span<const Span> spans,
                             const std::function<double(size_t action, double apart)>& late);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_LATENESS_H_
