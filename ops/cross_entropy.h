// Softmax cross entropy in nats, summed over rows; rows with a negative target are passed over.
// With the vocabulary whole, in one op; cut over a group, statistics of every part first, then the
// rest. With a softcap (Gemma Team, "Gemma 2", 2024, §2) the loss is that of softcap · tanh(logits
// / softcap), and gradients are still those towards the logits.
#ifndef STRATA_OPS_CROSS_ENTROPY_H_
#define STRATA_OPS_CROSS_ENTROPY_H_

#include <algorithm>
#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct CrossEntropy {
  static constexpr program::OpKind kKind = program::OpKind::kCrossEntropy;
  static constexpr const char* kSummary =
      "loss += Σ over rows of log Σ exp(logits) − logits[target]; the logits become their "
      "gradient, (softmax − one-hot) × kInverseTokens. With a softcap, which is not 0, softcap · "
      "tanh(logits / softcap) stand for the logits, and the gradient is times the tanh's slope.";
  enum { kLogits, kTargets, kScalars, kLoss };

  int64_t rows = 0, vocab = 0;  // N, V
  program::DType type = program::DType::kF32;
  double softcap = 0;  // 0: none

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  int64_t WorkspaceBytes(const Backend& backend) const;  // a loss per row
  static CrossEntropy Example() { return {.rows = 3, .vocab = 7}; }
};

struct CrossEntropyLoss {
  static constexpr program::OpKind kKind = program::OpKind::kCrossEntropyLoss;
  static constexpr const char* kSummary = "Only the loss of cross-entropy.";
  enum { kLogits, kTargets, kLoss };

  int64_t rows = 0, vocab = 0;
  program::DType type = program::DType::kF32;
  double softcap = 0;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  int64_t WorkspaceBytes(const Backend& backend) const;
  static CrossEntropyLoss Example() { return {.rows = 3, .vocab = 7}; }
};

// Of the V columns from `first` on, how many are beyond the whole.
inline int64_t PaddingOf(int64_t vocab, int64_t first, int64_t whole) {
  return whole == 0 ? 0 : std::clamp<int64_t>(first + vocab - whole, 0, vocab);
}

struct CrossEntropyStatistics {
  static constexpr program::OpKind kKind = program::OpKind::kCrossEntropyStatistics;
  static constexpr const char* kSummary =
      "Of a part of the vocabulary, V columns from (own index in the group) × V on: per row the "
      "maximum, Σ exp(logit − maximum), and the target's logit (0 where another part has it), "
      "capped where there is a softcap. Of `whole` columns in all (0: as many as all parts have) "
      "the "
      "last parts end in padding, which counts for nothing.";
  enum { kLogits, kTargets, kStatistics };

  int64_t rows = 0, vocab = 0;
  program::Group group = program::Group::kNone;
  program::DType type = program::DType::kF32;
  double softcap = 0;
  int64_t whole = 0;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static CrossEntropyStatistics Example();
};

struct CrossEntropyFinish {
  static constexpr program::OpKind kKind = program::OpKind::kCrossEntropyFinish;
  static constexpr const char* kSummary =
      "cross-entropy on a part of the vocabulary, with the statistics of all parts; the loss is "
      "whole, the same on each rank; the gradient of padding is 0.";
  enum { kLogits, kTargets, kStatistics, kScalars, kLoss };

  int64_t rows = 0, vocab = 0;
  program::Group group = program::Group::kNone;
  int64_t parts = 1;
  program::DType type = program::DType::kF32;
  double softcap = 0;
  int64_t whole = 0;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static CrossEntropyFinish Example();
};

}  // namespace strata::ops

#endif  // STRATA_OPS_CROSS_ENTROPY_H_
