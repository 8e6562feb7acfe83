// What an op asks of one operand: name, how it is used, element type and size.
#ifndef STRATA_OPS_OPERAND_SPEC_H_
#define STRATA_OPS_OPERAND_SPEC_H_

#include <cstdint>
#include <vector>

#include "program/ir/operand.h"
#include "program/ir/scalars.h"
#include "program/ir/types.h"

namespace strata::ops {

struct OperandSpec {
  const char* name;
  const char* shape;  // for people: "[N, C]"
  program::Access access;
  int64_t elements;
  program::DType type = program::DType::kF32;
  bool at_least = false;  // the operand may be larger (a table, a part of the scalar block)
  // A part of the scalar block: from this scalar on. The operand may begin earlier in the block.
  bool scalars = false;
  program::Scalar first = program::Scalar::kStep;

  int64_t bytes() const { return elements * program::SizeOf(type); }
  OperandSpec OrMore() const {
    OperandSpec spec = *this;
    spec.at_least = true;
    return spec;
  }
};
using OperandSpecs = std::vector<OperandSpec>;

// Tensors are row-major.
inline OperandSpec In(const char* name, const char* shape, int64_t elements,
                      program::DType type = program::DType::kF32) {
  return {name, shape, program::Access::kRead, elements, type};
}
inline OperandSpec Out(const char* name, const char* shape, int64_t elements,
                       program::DType type = program::DType::kF32) {
  return {name, shape, program::Access::kWrite, elements, type};
}
// Read and written: added to, or changed in place.
inline OperandSpec InOut(const char* name, const char* shape, int64_t elements,
                         program::DType type = program::DType::kF32) {
  return {name, shape, program::Access::kAccumulate, elements, type};
}
// The scalar block from `first` to `last`, f64.
inline OperandSpec Scalars(const char* name, const char* which, program::Access access,
                           program::Scalar first, program::Scalar last) {
  const int64_t count = static_cast<int64_t>(last) - static_cast<int64_t>(first) + 1;
  return {name, which, access, count, program::DType::kF64, true, true, first};
}

}  // namespace strata::ops

#endif  // STRATA_OPS_OPERAND_SPEC_H_
