// Streams of a rank that share its processors: what each takes longer because of the others.
#ifndef STRATA_PROGRAM_READERS_INTERFERENCE_H_
#define STRATA_PROGRAM_READERS_INTERFERENCE_H_

#include <vector>

#include "absl/types/span.h"
#include "program/passes/expand.h"
#include "program/readers/machine.h"

namespace strata::program {

// What communication and compute of one rank, or bytes that go both ways between its tiers (the
// stretch alone), cost each other while both are under way.
struct Interference {
  double compute_lost = 0;  // of compute's time, in 0 ... 1
  double stretch = 1;       // how many times longer it takes, at least 1

  bool any() const { return compute_lost > 0 || stretch > 1; }
};

// Seconds of each action of one rank over the steps that `spans` (of `actions`, in the order of
// RankTimes) covers: `alone` (per action of one step), and what the others' spans add to it.
// `beside`: per action of one step. `update_stretch`: how many times longer compute and updates on
// the host take while both are under way. Walking with what it returns, and again with what that
// returns, converges to spans that last as long as they say.
std::vector<double> Disturbed(absl::Span<const Action> actions, absl::Span<const Span> spans,
                              absl::Span<const double> alone, absl::Span<const Interference> beside,
                              double update_stretch = 1);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_INTERFERENCE_H_
