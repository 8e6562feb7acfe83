// From an op's type of numbers to the kernels' template argument.
#ifndef STRATA_WORKER_ENGINE_BINDING_NUMBER_TYPE_H_
#define STRATA_WORKER_ENGINE_BINDING_NUMBER_TYPE_H_

#include "kernels/number_types.h"
#include "program/ir/types.h"

namespace strata::worker {

// Of f32, bf16 and f16.
inline kernels::NumberType NumberTypeOf(program::DType type) {
  if (type == program::DType::kBF16) return kernels::NumberType::kBF16;
  if (type == program::DType::kF16) return kernels::NumberType::kF16;
  return kernels::NumberType::kF32;
}

// What `body` makes of a number of the type, which carries nothing but its type; an op that was
// read has none but these three.
template <typename Body>
auto WithNumber(program::DType type, const Body& body) {
  return kernels::WithNumberOf(NumberTypeOf(type), body);
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_NUMBER_TYPE_H_
