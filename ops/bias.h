// Biases: a vector that is added to every row.
#ifndef STRATA_OPS_BIAS_H_
#define STRATA_OPS_BIAS_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct AddBias {
  static constexpr program::OpKind kKind = program::OpKind::kAddBias;
  static constexpr const char* kSummary = "y[n] += b, in every row n.";
  static constexpr const char* kGradient = "bias-gradient towards b; y's stays what it is";
  enum { kY, kB };

  int64_t rows = 0, width = 0;  // N, W
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static AddBias Example() { return {.rows = 3, .width = 5}; }
};

struct BiasGradient {
  static constexpr program::OpKind kKind = program::OpKind::kBiasGradient;
  static constexpr const char* kSummary = "db += Σ over rows of dy (f32).";
  enum { kDy, kDb };

  int64_t rows = 0, width = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  // A partial sum per block of rows.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static BiasGradient Example() { return {.rows = 3, .width = 5}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_BIAS_H_
