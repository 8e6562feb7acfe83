// RMS norms of every query and key head by itself (Henry et al., "Query-Key Normalization for
// Transformers", 2020, with the root mean square of ops/rmsnorm.h), on packed heads.
#ifndef STRATA_OPS_HEADNORM_H_
#define STRATA_OPS_HEADNORM_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

// What the three ops say: packed rows of H query heads, K key heads, K value heads of D elements.
struct HeadNormShape {
  int64_t rows = 0;  // N
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  bool plus_one = false;  // the weights are 1 + w
  program::DType type = program::DType::kF32;

  int64_t elements() const { return rows * (heads + 2 * kv_heads) * head_size; }
  int64_t norms() const { return rows * (heads + kv_heads); }
  void Visit(AttributeVisitor& visitor);
  static HeadNormShape OfExample() {
    return {.rows = 3, .heads = 4, .kv_heads = 2, .head_size = 6, .plus_one = true};
  }
};

struct HeadNormForward {
  static constexpr program::OpKind kKind = program::OpKind::kHeadNormForward;
  static constexpr const char* kSummary =
      "out = qkv with every query head normed as rmsnorm-forward with wq, every key head with wk; "
      "values stay what they are. out may be qkv.";
  static constexpr const char* kGradient = "head-norm-backward";
  enum { kQkv, kWq, kWk, kOut, kRstd };

  HeadNormShape shape;
  double epsilon = 0;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static HeadNormForward Example() { return {HeadNormShape::OfExample(), 1e-6}; }
};

struct HeadNormReplay {
  static constexpr program::OpKind kKind = program::OpKind::kHeadNormReplay;
  static constexpr const char* kSummary =
      "The forward's out again, the same bits, from the rstd that it wrote.";
  enum { kQkv, kWq, kWk, kRstd, kOut };

  HeadNormShape shape;

  void Visit(AttributeVisitor& visitor) { shape.Visit(visitor); }
  OperandSpecs Operands() const;
  static HeadNormReplay Example() { return {HeadNormShape::OfExample()}; }
};

struct HeadNormBackward {
  static constexpr program::OpKind kKind = program::OpKind::kHeadNormBackward;
  static constexpr const char* kSummary =
      "dqkv as dx of rmsnorm-backward per head, values' gradients as they are; dwq, dwk += the "
      "sums over rows and heads (f32), which are not there where the weights are `frozen`. dqkv "
      "may be dout.";
  enum { kDout, kQkv, kWq, kWk, kRstd, kDqkv, kDwq, kDwk };

  HeadNormShape shape;
  bool frozen = false;  // without dwq, dwk

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  // Partial gradients of both weights per block of rows.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static HeadNormBackward Example() { return {HeadNormShape::OfExample()}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_HEADNORM_H_
