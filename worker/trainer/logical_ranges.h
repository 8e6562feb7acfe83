// The elements of a parameter set's flat layout as pieces of the logical tensors that users and
// checkpoints see (a fused tensor's parts are tensors of their own), whole or cut over a group.
#ifndef STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_
#define STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "program/ir/parameter_set.h"

namespace strata::worker {

struct LogicalRange {
  std::string name;
  std::vector<int64_t> shape;          // of the logical tensor, whole
  std::optional<checkpoint::Box> box;  // this rank's cut of it; absent: all of it
  int64_t begin = 0, end = 0;          // elements of the box, row-major
  int64_t flat_begin = 0;              // where they begin in the flat layout

  checkpoint::Region region() const {
    return {box.value_or(checkpoint::WholeBox(shape)), begin, end};
  }
};

// What [begin, end) of the set's flat layout holds, ascending, on the rank with this index in the
// groups that its tensors are cut over; padding belongs to no tensor.
std::vector<LogicalRange> LogicalRanges(const program::ParameterSet& set, int64_t begin,
                                        int64_t end, int64_t cut_index = 0);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_LOGICAL_RANGES_H_
