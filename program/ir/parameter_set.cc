#include "program/ir/parameter_set.h"

#include "common/units.h"

namespace strata::program {

void FlattenSet(ParameterSet& set, int64_t ranges) {
  constexpr int64_t kAlignment = 16;  // elements
  int64_t next = 0;
  for (TensorSpec& tensor : set.tensors) {
    tensor.offset = next;
    next = common::RoundUp(next + tensor.elements(), kAlignment);
  }
  set.elements = common::RoundUp(next, kAlignment * ranges);
}

}  // namespace strata::program
