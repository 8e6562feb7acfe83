// The elements of a parameter set's flat layout as pieces of the logical tensors that users and
// checkpoints see (a fused tensor's parts are tensors of their own).
#ifndef STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_
#define STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/parameter_set.h"

namespace strata::worker {

struct LogicalRange {
  std::string name;
  std::vector<int64_t> shape;  // of the logical tensor
  int64_t begin = 0, end = 0;  // its elements
  int64_t flat_begin = 0;      // where they begin in the flat layout
};

// What [begin, end) of the set's flat layout holds, ascending; padding belongs to no tensor.
std::vector<LogicalRange> LogicalRanges(const program::ParameterSet& set, int64_t begin,
                                        int64_t end);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_
