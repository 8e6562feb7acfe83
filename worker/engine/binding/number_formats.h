// Types of the plan as kernels name them.
#ifndef STRATA_WORKER_ENGINE_BINDING_NUMBER_FORMATS_H_
#define STRATA_WORKER_ENGINE_BINDING_NUMBER_FORMATS_H_

#include "kernels/state_format.h"
#include "program/ir/optimizer_state.h"
#include "worker/engine/binding/number_type.h"

namespace strata::worker {

// Of states that are moments.
inline kernels::MomentFormat MomentFormatOf(program::StateFormat format) {
  switch (format) {
    case program::StateFormat::kBF16:
      return kernels::MomentFormat::kBF16;
    case program::StateFormat::kSigned8:
      return kernels::MomentFormat::kSigned8;
    case program::StateFormat::kUnsigned8:
      return kernels::MomentFormat::kUnsigned8;
    case program::StateFormat::kF32:
    case program::StateFormat::kRemainder:
      break;
  }
  return kernels::MomentFormat::kF32;
}

// Of the state that is the master of weights of another type than f32.
inline kernels::MasterFormat MasterFormatOf(program::StateFormat format) {
  return format == program::StateFormat::kRemainder ? kernels::MasterFormat::kRemainder
                                                    : kernels::MasterFormat::kF32;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_NUMBER_FORMATS_H_
