// Root mean square norms (Zhang and Sennrich, NeurIPS 2019, eq. 4): y = x · rstd · w with
// rstd = 1 / √(mean(x²) + ε) per row; with `plus_one` the weight is 1 + w (Gemma).
#ifndef STRATA_OPS_RMSNORM_H_
#define STRATA_OPS_RMSNORM_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct RmsNormForward {
  static constexpr program::OpKind kKind = program::OpKind::kRmsNormForward;
  static constexpr const char* kSummary =
      "y = x · rstd · w with rstd = 1 / √(mean(x²) + epsilon) per row (Zhang and Sennrich, NeurIPS "
      "2019, eq. 4); with plus_one 1 + w stands for w.";
  static constexpr const char* kGradient = "rmsnorm-backward";
  enum { kX, kW, kY, kRstd };

  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  double epsilon = 0;
  bool plus_one = false;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static RmsNormForward Example() { return {.rows = 3, .channels = 5, .epsilon = 1e-5}; }
};

struct AddRmsNormForward {
  static constexpr program::OpKind kKind = program::OpKind::kAddRmsNormForward;
  static constexpr const char* kSummary =
      "The residual connection and the norm behind it: sum = x + branch, y and rstd of sum.";
  static constexpr const char* kGradient =
      "rmsnorm-backward, added to the gradient of sum, which is that of x and of branch";
  enum { kX, kBranch, kW, kSum, kY, kRstd };

  int64_t rows = 0, channels = 0;
  double epsilon = 0;
  bool plus_one = false;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static AddRmsNormForward Example() { return {.rows = 3, .channels = 5, .epsilon = 1e-5}; }
};

struct RmsNormReplay {
  static constexpr program::OpKind kKind = program::OpKind::kRmsNormReplay;
  static constexpr const char* kSummary =
      "The forward's y again, the same bits, from the rstd that it wrote.";
  enum { kX, kW, kRstd, kY };

  int64_t rows = 0, channels = 0;
  bool plus_one = false;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static RmsNormReplay Example() { return {.rows = 3, .channels = 5}; }
};

struct RmsNormBackward {
  static constexpr program::OpKind kKind = program::OpKind::kRmsNormBackward;
  static constexpr const char* kSummary =
      "dx = rstd · (dy·w − x · rstd² · mean(dy·w·x)), or added to dx; dw += Σ dy · x · rstd (f32). "
      "There is no dw where w is `frozen`.";
  enum { kDy, kX, kW, kRstd, kDx, kDw };

  int64_t rows = 0, channels = 0;
  bool accumulate = false;  // dx
  bool plus_one = false;
  bool frozen = false;  // without dw
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  // A partial gradient of the weights per block of rows.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static RmsNormBackward Example() { return {.rows = 3, .channels = 5, .accumulate = true}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_RMSNORM_H_
