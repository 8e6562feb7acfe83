// What collectives that add need beside their operands.
#ifndef STRATA_PLANNER_FIT_COLLECTIVE_SCRATCH_H_
#define STRATA_PLANNER_FIT_COLLECTIVE_SCRATCH_H_

#include <cstdint>

#include "program/ir/types.h"

namespace strata::planner {

// Bytes where the other ranks' unreduced pieces arrive, in a group of `ranks`; `bytes` as the
// operation moves them. As the backend has it (collectives/communicator.h, ScratchBytes), of which
// planning knows nothing: a test of worker/engine compares the two.
int64_t CollectiveScratch(program::CollectiveOp op, program::DType type, int64_t bytes, int ranks);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_COLLECTIVE_SCRATCH_H_
