// The second look at a layout that the search has found: the step program that its ranks would run,
// walked on a device of the catalog.
#ifndef STRATA_PLANNER_SEARCH_REPLAY_H_
#define STRATA_PLANNER_SEARCH_REPLAY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "planner/search/search.h"

namespace strata::planner {

struct Replay {
  double seconds = 0;  // of a step
  // Of the slowest rank: "compute", what compute waits for, by purpose, "overhead" and
  // "stragglers", the last two as the closed form has them.
  std::vector<std::pair<std::string, double>> terms;
};

// A program's passes, layers times micro-batches: some milliseconds each to compose and walk, and
// the most that are replayed.
inline int64_t PassesOf(const TrainingShape& shape, const LayoutChoice& layout) {
  return shape.layers * layout.micro_batches();
}
inline constexpr int64_t kMostReplayedPasses = 8192;
// Each of them has a part of every gradient, which programs tell apart.
inline constexpr int64_t kMostReplayedData = 4096;

// With AdamW on 32-bit states, as the closed form has it. Unimplemented: the engine has no such
// programs (products in 8 or 4 bits, experts); ResourceExhausted: more than
// kMostReplayedPasses or kMostReplayedData ranks of data; Unimplemented: states in unified memory,
// whose pages have no price here;
// InvalidArgument: the layout is not one that a job can have, with the reason.
absl::StatusOr<Replay> ReplayPlan(const Machine& machine, const model::ModelSpec& model,
                                  const TrainingShape& shape, const RankedPlan& plan);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_REPLAY_H_
