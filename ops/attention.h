// Causal grouped-query attention on packed heads, softmax(q kᵀ / √D) v, in tiles (Dao et al.,
// "FlashAttention", NeurIPS 2022; Dao, "FlashAttention-2", 2023).
#ifndef STRATA_OPS_ATTENTION_H_
#define STRATA_OPS_ATTENTION_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

// What families change about scores.
struct AttentionScores {
  int64_t window = 0;  // a row sees the last `window` rows up to its own; 0: all
  double softcap = 0;  // a score becomes softcap · tanh(score / softcap); 0: it stays
  double scale = 0;    // of q kᵀ; 0: 1/√D

  bool plain() const { return window == 0 && softcap == 0 && scale == 0; }
  absl::Status Validate() const;
};

struct AttentionShape {
  int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_size = 0;
  AttentionScores scores = {};
  program::DType type = program::DType::kF32;  // of all but lse and delta, which are f32

  int64_t rows() const { return batch * sequence; }                         // N
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }  // query, key, value
  void Visit(AttributeVisitor& visitor);                                    // the sizes
  // The rest, behind an op's other attributes.
  void VisitMore(AttributeVisitor& visitor, bool& documents);
  absl::Status Validate() const;
};

// Of one rank's rows over one rank's keys, in the mean over a context group: its windows leave some
// pairs of ranks nothing.
double MeanPartFlops(const AttentionShape& held, int64_t ranks);

struct AttentionForward {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionForward;
  static constexpr const char* kSummary =
      "Causal grouped-query attention; lse is the logarithm of each row's sum of exponentials. "
      "With `documents` row t of a sequence sees rows [t − positions[t], t] of it, with a window "
      "w > 0 at most the last w up to its own. Scores are scale · q kᵀ (0: 1/√D), and c · tanh of "
      "them / c with a softcap c > 0.";
  // Two products of 2·B·H·D·T² of which the mask leaves half; of documents never more.
  static constexpr const char* kFlops = "2·B·H·D·T², with a window w < T 4·B·H·D·(T·w − w²/2)";
  static constexpr const char* kGradient = "attention-backward";
  enum { kQkv, kOut, kLse, kPositions };

  AttentionShape shape;
  bool documents = false;  // positions are an operand

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double Flops() const;
  // Per thread, tiles of keys and of query rows, or of as many rows as a group has query heads:
  // keys, values, queries, outputs.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static AttentionForward Example();
};

struct AttentionBackward {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionBackward;
  static constexpr const char* kSummary = "dqkv from dout and what forward saw and made.";
  // The scores again, and four more products (Dao 2023, §3.2).
  static constexpr const char* kFlops = "2.5 times the forward's";
  enum { kDout, kQkv, kOut, kLse, kDqkv, kPositions };

  AttentionShape shape;
  bool documents = false;  // as of the forward

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double Flops() const;
  // Per thread, keys and their transpose, values, their gradients, queries and output gradients
  // twice, probabilities and their gradients, of numbers of 16 bits the sums of a group's dq; per
  // row of batch and head the product of output and gradient.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static AttentionBackward Example();
};

struct AttentionDecode {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionDecode;
  static constexpr const char* kSummary =
      "Appends the keys and values of a chunk of one sequence (T rows, of which kValidTokens are "
      "real) to the cache at kPosition, then attends to cache rows [0, kPosition + row]; rows that "
      "are not real become zeros.";
  // A full cache, the most it can be.
  static constexpr const char* kFlops = "4·T·context·H·D, with a window w 4·T·w·H·D at most";
  enum { kQkv, kKCache, kVCache, kScalars, kOut };

  int64_t rows = 0;     // T
  int64_t context = 0;  // capacity of the cache
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  AttentionScores scores = {};
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double Flops() const;
  double BytesMoved() const;                             // what is seen of the cache is read once
  int64_t WorkspaceBytes(const Backend& backend) const;  // as forward
  static AttentionDecode Example();
};

}  // namespace strata::ops

#endif  // STRATA_OPS_ATTENTION_H_
