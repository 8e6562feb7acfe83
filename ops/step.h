// What a step begins and ends with: batch and scalars from the host, and the last word.
#ifndef STRATA_OPS_STEP_H_
#define STRATA_OPS_STEP_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct LoadBatch {
  static constexpr program::OpKind kKind = program::OpKind::kLoadBatch;
  static constexpr const char* kSummary =
      "The trainer, which knows which samples are this rank's, writes them. A negative target is "
      "not trained on.";
  enum { kTokens, kTargets };

  int64_t samples = 0, sequence = 0;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static LoadBatch Example() { return {.samples = 2, .sequence = 3}; }
};

struct LoadScalars {
  static constexpr program::OpKind kKind = program::OpKind::kLoadScalars;
  static constexpr const char* kSummary = "The trainer writes the host's part of the scalar block.";
  enum { kScalars };

  void Visit(AttributeVisitor&) {}
  OperandSpecs Operands() const;
  static LoadScalars Example() { return {}; }
};

struct FinishStep {
  static constexpr program::OpKind kKind = program::OpKind::kFinishStep;
  static constexpr const char* kSummary =
      "leaves: per virtual shard the sum of its losses, then Σ gradient² of its range of each set. "
      "Sums each column in the fixed tree, the sets' norms left to right; then kLoss = Σ · "
      "kInverseTokens, kGradientNorm, kClipFactor = min(1, clip / (norm + 1e-6)) (1 when clip is "
      "0), "
      "kClipped, kApply = loss and norm are finite. With 0 sets only kLoss.";
  enum { kLeaves, kRead, kResults };

  int64_t virtual_shards = 0, sets = 0;
  double clip = 0;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const { return Require(clip >= 0, "clip is negative"); }
  OperandSpecs Operands() const;
  static FinishStep Example() { return {.virtual_shards = 2, .sets = 3, .clip = 1}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_STEP_H_
