// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2):
// the update, and the correction of one that was made before the norm was known.
#ifndef STRATA_OPS_ADAMW_H_
#define STRATA_OPS_ADAMW_H_

#include <cstdint>
#include <vector>

#include "ops/op_struct.h"

namespace strata::ops {

// Of a set's flat layout `count` elements from (index in the operands' shard group) × stride +
// first on.
struct AdamWAttributes {
  int64_t count = 0;
  int64_t first = 0, stride = 0;
  std::vector<Range> decay;  // ranges of the whole flat layout
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
};

struct AdamW {
  static constexpr program::OpKind kKind = program::OpKind::kAdamW;
  static constexpr const char* kSummary =
      "One update (Loshchilov and Hutter, ICLR 2019, algorithm 2): version s of parameter and "
      "moments "
      "and the gradient, times kClipFactor, give version s + 1, possibly in the same bytes. The "
      "update's number for bias correction is kApplied + 1; weight decay applies to the ranges.";
  enum { kParam, kM, kV, kDParam, kScalars, kNextParam, kNextM, kNextV };

  AdamWAttributes of;

  void Visit(AttributeVisitor& visitor) { of.Visit(visitor); }
  absl::Status Validate() const { return of.Validate(); }
  OperandSpecs Operands() const;
  static AdamW Example();
};

struct AdamWFixUp {
  static constexpr program::OpKind kKind = program::OpKind::kAdamWFixUp;
  static constexpr const char* kSummary =
      "What a speculative update, made with factor 1, becomes when the norm clips: version s, and "
      "the first moment of s + 1, which tells the gradient, give version s + 1 with the clipped "
      "gradient. Within rounding of the deferred update, not equal (kernels/adamw.h). Attributes "
      "are "
      "those of the update.";
  enum { kParam, kM, kV, kSpeculativeM, kScalars, kNextParam, kNextM, kNextV };

  AdamWAttributes of;

  void Visit(AttributeVisitor& visitor) { of.Visit(visitor); }
  absl::Status Validate() const { return of.Validate(); }
  OperandSpecs Operands() const;
  static AdamWFixUp Example();
};

}  // namespace strata::ops

#endif  // STRATA_OPS_ADAMW_H_
