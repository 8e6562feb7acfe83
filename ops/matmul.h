// Matrix products. FLOPs everywhere are those of products and attention, the work that a machine's
// rate of products is compared with; elementwise ops, norms and losses count 0: their time is
// bytes.
#ifndef STRATA_OPS_MATMUL_H_
#define STRATA_OPS_MATMUL_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct MatMul {
  static constexpr program::OpKind kKind = program::OpKind::kMatMul;
  static constexpr const char* kSummary =
      "c[m, n] = op(a)[m, k] · op(b)[k, n], or added to c; op is the identity or the transpose. "
      "Row distances in elements, 0: dense.";
  static constexpr const char* kFlops = "2·m·n·k";
  static constexpr const char* kGradient = "da = dc · bᵀ, db = aᵀ · dc";
  enum { kA, kB, kC };

  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false;  // a is stored [k, m]
  bool trans_b = false;  // b is stored [n, k]
  bool accumulate = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  program::DType type = program::DType::kF32;      // of a and b
  program::DType out_type = program::DType::kF32;  // of c: `type`, or f32

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double Flops() const;
  // Packed blocks of both factors, or the matrix library's scratchpads, whichever is more.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static MatMul Example() { return {.m = 4, .n = 6, .k = 5, .trans_b = true}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_MATMUL_H_
