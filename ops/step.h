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
      "not trained on. With `documents` also each token's place inside its document.";
  enum { kTokens, kTargets, kPositions };

  int64_t samples = 0, sequence = 0;
  bool documents = false;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static LoadBatch Example() { return {.samples = 2, .sequence = 3, .documents = true}; }
};

struct LoadScalars {
  static constexpr program::OpKind kKind = program::OpKind::kLoadScalars;
  static constexpr const char* kSummary =
      "The trainer writes the host's part of the scalar block. Where the operand reaches "
      "kClipFactor, "
      "that becomes 1: speculative updates run before the finish.";
  enum { kScalars };

  void Visit(AttributeVisitor&) {}
  OperandSpecs Operands() const;
  static LoadScalars Example() { return {}; }
};

struct FinishStep {
  static constexpr program::OpKind kKind = program::OpKind::kFinishStep;
  static constexpr const char* kSummary =
      "losses: rank by rank of the data group its rows, of which row l of rank (replica p, member "
      "r "
      "of `together` neighbours) is leaf p·L·together + l·together + r with L rows a rank; norms: "
      "of "
      "each of `norm_ranks` ranks, set by set, Σ gradient² of its ranges. Sums losses, and each "
      "set's ranges, in the fixed tree, the sets left to right; then kLoss = Σ · kInverseTokens, "
      "kGradientNorm, kClipFactor = min(1, clip / (norm + 1e-6)) (1 when clip is 0), kClipped, "
      "kApply = loss and norm are finite. With 0 sets there are no norms, and only kLoss. "
      "`scaled`: the loss's gradient was multiplied by kLossScale (kInverseTokens has it as a "
      "factor); loss, norm and kClipFactor are divided by it.";
  enum { kLosses, kRead, kResults, kNorms };

  int64_t rows = 0, sets = 0;
  int64_t data = 1;        // ranks; divides rows
  int64_t together = 1;    // divides data
  int64_t norm_ranks = 1;  // divides rows
  double clip = 0;
  bool scaled = false;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static FinishStep Example() {
    return {.rows = 3, .sets = 2, .data = 3, .together = 3, .norm_ranks = 3, .clip = 1};
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_STEP_H_
