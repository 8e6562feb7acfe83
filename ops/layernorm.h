// Layer norms (Ba, Kiros and Hinton, "Layer Normalization", 2016, eq. 4):
// y = (x − mean) · rstd · w + b with rstd = 1 / √(variance + ε) per row. Statistics hold a row's
// mean, then its rstd.
#ifndef STRATA_OPS_LAYERNORM_H_
#define STRATA_OPS_LAYERNORM_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct LayerNormForward {
  static constexpr program::OpKind kKind = program::OpKind::kLayerNormForward;
  static constexpr const char* kSummary =
      "y = (x − mean) · rstd · w + b with rstd = 1 / √(mean((x − mean)²) + epsilon) per row (Ba, "
      "Kiros and Hinton, 2016, eq. 4); statistics: mean, rstd.";
  static constexpr const char* kGradient = "layernorm-backward";
  enum { kX, kW, kB, kY, kStatistics };

  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  double epsilon = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static LayerNormForward Example() { return {.rows = 3, .channels = 5, .epsilon = 1e-5}; }
};

struct AddLayerNormForward {
  static constexpr program::OpKind kKind = program::OpKind::kAddLayerNormForward;
  static constexpr const char* kSummary =
      "The residual connection and the norm behind it: sum = x + branch, y and statistics of sum.";
  static constexpr const char* kGradient =
      "layernorm-backward, added to the gradient of sum, which is that of x and of branch";
  enum { kX, kBranch, kW, kB, kSum, kY, kStatistics };

  int64_t rows = 0, channels = 0;
  double epsilon = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static AddLayerNormForward Example() { return {.rows = 3, .channels = 5, .epsilon = 1e-5}; }
};

struct LayerNormReplay {
  static constexpr program::OpKind kKind = program::OpKind::kLayerNormReplay;
  static constexpr const char* kSummary =
      "The forward's y again, the same bits, from the statistics that it wrote.";
  enum { kX, kW, kB, kStatistics, kY };

  int64_t rows = 0, channels = 0;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static LayerNormReplay Example() { return {.rows = 3, .channels = 5}; }
};

struct LayerNormBackward {
  static constexpr program::OpKind kKind = program::OpKind::kLayerNormBackward;
  static constexpr const char* kSummary =
      "With n = (x − mean) · rstd: dx = rstd · (dy·w − mean(dy·w) − n · mean(dy·w·n)), or added to "
      "dx; dw += Σ dy · n, db += Σ dy (f32). There are no dw and db where the norm is `frozen`.";
  enum { kDy, kX, kW, kStatistics, kDx, kDw, kDb };

  int64_t rows = 0, channels = 0;
  bool accumulate = false;  // dx
  bool frozen = false;      // without dw, db
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  // Partial gradients of weights and biases per block of rows.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static LayerNormBackward Example() { return {.rows = 3, .channels = 5, .accumulate = true}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_LAYERNORM_H_
