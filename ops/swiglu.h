// SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020): h = silu(gate) · up.
#ifndef STRATA_OPS_SWIGLU_H_
#define STRATA_OPS_SWIGLU_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct SwigluForward {
  static constexpr program::OpKind kKind = program::OpKind::kSwigluForward;
  static constexpr const char* kSummary =
      "h = silu(gate) · up (Shazeer, \"GLU Variants Improve Transformer\", 2020); a row of gate_up "
      "holds the gate's columns, then up's.";
  static constexpr const char* kGradient = "swiglu-backward";
  enum { kGateUp, kH };

  int64_t rows = 0, ffn = 0;  // N, F

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static SwigluForward Example() { return {.rows = 3, .ffn = 5}; }
};

struct SwigluBackward {
  static constexpr program::OpKind kKind = program::OpKind::kSwigluBackward;
  static constexpr const char* kSummary = "dgate_up from dh and what forward saw.";
  enum { kDh, kGateUp, kDgateUp };

  int64_t rows = 0, ffn = 0;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static SwigluBackward Example() { return {.rows = 3, .ffn = 5}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_SWIGLU_H_
