// Attention of a context group's ranks, each of which has some rows of every sequence
// (program/ir/context_rows.h says which).
#ifndef STRATA_OPS_CONTEXT_H_
#define STRATA_OPS_CONTEXT_H_

#include <cstdint>

#include "ops/attention.h"
#include "ops/op_struct.h"

namespace strata::ops {

// Whose keys and values attention sees: in step s of a ring those of the rank s places before this
// one, or those of all ranks in order.
struct ContextPart {
  AttentionShape held;  // `sequence`: rows of each sequence that a rank has
  int64_t ranks = 0;    // of the context group
  int64_t step = 0;     // of a ring; 0: own keys
  bool gathered = false;
  bool documents = false;  // positions of the queries' rows are the last operand

  int64_t members() const { return gathered ? ranks : 1; }
  // Nothing was seen before.
  bool first() const { return gathered || step == 0; }
  int64_t kv_elements() const {
    return members() * held.rows() * 2 * held.kv_heads * held.head_size;
  }
  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  static ContextPart OfExample();
};

struct AttentionPart {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionPart;
  static constexpr const char* kSummary =
      "As attention-forward, of this rank's queries and some ranks' keys and values; a later "
      "step's "
      "out and lse take in what earlier ones gave. Positions are of this rank's rows.";
  static constexpr const char* kFlops = "2·B·H·D·T² per rank whose keys are seen, less by a window";
  static constexpr const char* kGradient = "attention-part-backward";
  enum { kQkv, kKv, kOut, kLse, kPositions };

  ContextPart part;

  void Visit(AttributeVisitor& visitor) { part.Visit(visitor); }
  absl::Status Validate() const { return part.Validate(); }
  OperandSpecs Operands() const;
  double Flops() const;
  int64_t WorkspaceBytes(const Backend& backend) const;  // as attention-forward
  static AttentionPart Example() { return {ContextPart::OfExample()}; }
};

struct AttentionPartBackward {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionPartBackward;
  static constexpr const char* kSummary =
      "dkv of these keys and values and, in the queries' columns of dqkv, their share of dq; the "
      "other columns stay as they are, or open after the first step.";
  static constexpr const char* kFlops = "5·B·H·D·T² per rank whose keys are seen, less by a window";
  enum { kDout, kQkv, kKv, kLse, kDelta, kDqkv, kDkv, kPositions };

  ContextPart part;

  void Visit(AttributeVisitor& visitor) { part.Visit(visitor); }
  absl::Status Validate() const { return part.Validate(); }
  OperandSpecs Operands() const;
  double Flops() const;
  int64_t WorkspaceBytes(const Backend& backend) const;  // as attention-backward; CUDA: none
  static AttentionPartBackward Example() { return {ContextPart::OfExample()}; }
};

struct AttentionDelta {
  static constexpr program::OpKind kKind = program::OpKind::kAttentionDelta;
  static constexpr const char* kSummary = "delta = Σ dout · out over each head.";
  enum { kDout, kOut, kDelta };

  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  program::DType type = program::DType::kF32;  // of dout and out

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  static AttentionDelta Example();
};

// Columns of rows, to and from where they lie otherwise.
struct MoveBlocks {
  static constexpr program::OpKind kKind = program::OpKind::kMoveBlocks;
  static constexpr const char* kSummary =
      "to[b·to_block + r·to_row + i] = from[b·from_block + r·from_row + i], b of blocks, r of "
      "rows, "
      "i of width, block after block; added with `adds`. What lies between stays as it is with "
      "`keeps` or `adds`, and is open without.";
  enum { kFrom, kTo };

  int64_t blocks = 1, rows = 0, width = 0;
  int64_t from_block = 0, from_row = 0, to_block = 0, to_row = 0;  // elements
  bool keeps = false, adds = false;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  double BytesMoved() const;
  static MoveBlocks Example();
};

struct OrderRows {
  static constexpr program::OpKind kKind = program::OpKind::kOrderRows;
  static constexpr const char* kSummary =
      "ordered: the rows of whole sequences, of what the ranks of a context group have of each, "
      "rank after rank; with `inverse` the way back.";
  static constexpr const char* kGradient = "itself with inverse";
  enum { kRanked, kOrdered };

  int64_t batch = 0, ranks = 0;
  int64_t rows = 0;    // of each sequence that a rank has
  int64_t width = 0;   // elements of a row
  int64_t stride = 0;  // elements between ranks
  bool inverse = false;
  program::DType type = program::DType::kF32;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static OrderRows Example();
};

}  // namespace strata::ops

#endif  // STRATA_OPS_CONTEXT_H_
