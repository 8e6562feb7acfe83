// In which numbers an optimizer works: what a job asks for.
#ifndef STRATA_MODEL_OPTIMIZER_NUMBER_FORMATS_H_
#define STRATA_MODEL_OPTIMIZER_NUMBER_FORMATS_H_

#include <cstdint>

#include "program/ir/optimizer_state.h"
#include "program/ir/parameter_set.h"
#include "program/ir/types.h"

namespace strata::model {

struct NumberFormats {
  enum class State : uint8_t { kF32, kBF16, k8Bit };

  program::DType gradient = program::DType::kF32;  // or bf16
  // Of weights with fewer bits than f32: f32, or, of bf16, the remainder.
  program::StateFormat master = program::StateFormat::kF32;
  State state = State::kF32;  // of moments

  program::StateFormat moment(bool has_sign) const {
    if (state == State::k8Bit) {
      return has_sign ? program::StateFormat::kSigned8 : program::StateFormat::kUnsigned8;
    }
    return state == State::kBF16 ? program::StateFormat::kBF16 : program::StateFormat::kF32;
  }
  // Of sets (ParameterSet::alignment): no block of a state has elements of two tensors.
  int64_t set_alignment() const {
    return state == State::k8Bit ? program::kStateBlock : program::ParameterSet{}.alignment;
  }
};

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_NUMBER_FORMATS_H_
