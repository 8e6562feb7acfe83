// The feed-forward part's activations: alone, h = f(x), or as a gate, h = f(gate) · up (Shazeer,
// "GLU Variants Improve Transformer", 2020).
#ifndef STRATA_OPS_ACTIVATION_H_
#define STRATA_OPS_ACTIVATION_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

// f: x / (1 + exp(−x)); x Φ(x) with Φ by tanh(√(2/π) (x + 0.044715 x³)) (Hendrycks and Gimpel,
// "Gaussian Error Linear Units", 2016), and exactly.
enum class Function : uint8_t { kSilu, kGeluTanh, kGelu };
inline constexpr int64_t kFunctions = 3;

struct SwigluForward {
  static constexpr program::OpKind kKind = program::OpKind::kSwigluForward;
  static constexpr const char* kSummary =
      "h = f(gate) · up (Shazeer, \"GLU Variants Improve Transformer\", 2020); a row of gate_up "
      "holds the gate's columns, then up's. f by `function`: 0 silu, 1 gelu by tanh, 2 gelu.";
  static constexpr const char* kGradient = "swiglu-backward";
  enum { kGateUp, kH };

  int64_t rows = 0, ffn = 0;  // N, F
  Function function = Function::kSilu;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static SwigluForward Example() { return {.rows = 3, .ffn = 5}; }
};

struct SwigluBackward {
  static constexpr program::OpKind kKind = program::OpKind::kSwigluBackward;
  static constexpr const char* kSummary =
      "dgate_up from dh and what forward saw, which it may replace.";
  enum { kDh, kGateUp, kDgateUp };

  int64_t rows = 0, ffn = 0;
  Function function = Function::kSilu;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static SwigluBackward Example() { return {.rows = 3, .ffn = 5}; }
};

struct Activate {
  static constexpr program::OpKind kKind = program::OpKind::kActivate;
  static constexpr const char* kSummary =
      "h = f(x), f by `function`: 0 silu, 1 gelu by tanh, 2 gelu (Hendrycks and Gimpel, 2016). h "
      "may be x.";
  static constexpr const char* kGradient = "activate-backward";
  enum { kX, kH };

  int64_t rows = 0, ffn = 0;
  Function function = Function::kSilu;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static Activate Example() { return {.rows = 3, .ffn = 5}; }
};

struct ActivateBackward {
  static constexpr program::OpKind kKind = program::OpKind::kActivateBackward;
  static constexpr const char* kSummary = "dx = dh · f′(x); dx may be x or dh.";
  enum { kDh, kX, kDx };

  int64_t rows = 0, ffn = 0;
  Function function = Function::kSilu;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static ActivateBackward Example() { return {.rows = 3, .ffn = 5}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_ACTIVATION_H_
