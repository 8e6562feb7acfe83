// What updates of weights share on CUDA devices: numbers of any type (kernels/optimizer_update.h)
// are read, computed with in f32 and rounded in one pass, by rates that the device reads from the
// scalar block when the update runs.
#ifndef STRATA_KERNELS_CUDA_UPDATE_H_
#define STRATA_KERNELS_CUDA_UPDATE_H_

#include <cstdint>

#include "kernels/optimizer_update.h"

namespace strata::kernels::cuda {

// Holds where *scalar is not 0 or, negated, where it is; without a scalar always.
struct Predicate {
  const double* scalar = nullptr;
  bool negated = false;
};

// Places in the scalar block, wherever the device reaches it. Where the predicate does not hold,
// the update changes nothing.
struct UpdateScalars {
  const double* applied = nullptr;  // updates before this one
  const double* learning_rate = nullptr;
  const double* clip_factor = nullptr;  // multiplied into the gradient first
  Predicate predicate;
};

// A run of elements that have weight decay or have not. Where moments are in blocks, whole blocks.
struct UpdateSegment {
  int64_t begin = 0, end = 0;
  bool decay = false;
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_H_
