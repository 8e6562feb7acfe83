// Quantised weights as numbers.
#ifndef STRATA_OPS_DEQUANTISE_H_
#define STRATA_OPS_DEQUANTISE_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Dequantise {
  static constexpr program::OpKind kKind = program::OpKind::kDequantise;
  static constexpr const char* kSummary =
      "out = the numbers that NF4 units stand for (Dettmers et al., \"QLoRA\", 2023; kernels/nf4.h "
      "has the layout); the last unit may be longer than what is asked for.";
  enum { kUnits, kOut };

  int64_t elements = 0;
  program::DType type = program::DType::kF32;  // of out

  void Visit(AttributeVisitor& visitor) {
    visitor.Size("elements", elements);
    visitor.Type("type", type);
  }
  OperandSpecs Operands() const {
    return {In("units", "[⌈elements / 16384⌉, 8512]",
               program::BytesOf(program::DType::kNf4, elements), program::DType::kBytes),
            Out("out", "[elements]", elements, type)};
  }
  static Dequantise Example() { return {.elements = 20}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_DEQUANTISE_H_
