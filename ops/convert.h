// Numbers in another type.
#ifndef STRATA_OPS_CONVERT_H_
#define STRATA_OPS_CONVERT_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Convert {
  static constexpr program::OpKind kKind = program::OpKind::kConvert;
  static constexpr const char* kSummary = "dst = src, rounded to the nearest, ties to even.";
  static constexpr const char* kGradient = "convert";
  enum { kDst, kSrc };

  int64_t elements = 0;
  program::DType to = program::DType::kF32, from = program::DType::kF32;

  void Visit(AttributeVisitor& visitor) {
    visitor.Count("elements", elements);
    visitor.Type("to", to);
    visitor.Type("from", from);
  }
  OperandSpecs Operands() const {
    return {Out("dst", "[elements]", elements, to), In("src", "[elements]", elements, from)};
  }
  static Convert Example() { return {.elements = 9, .to = program::DType::kBF16}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_CONVERT_H_
