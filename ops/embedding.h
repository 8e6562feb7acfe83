// Token embedding: rows of a table, whole or cut over a group.
#ifndef STRATA_OPS_EMBEDDING_H_
#define STRATA_OPS_EMBEDDING_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct EmbeddingForward {
  static constexpr program::OpKind kKind = program::OpKind::kEmbeddingForward;
  static constexpr const char* kSummary =
      "y[n] = table[tokens[n]]. With a group the table holds the V rows from (own index in the "
      "group) × V on; tokens outside give zeros. With a scale y is multiplied by it. Of `whole` "
      "rows in all (0: as many as all parts have) the last parts end in padding.";
  static constexpr const char* kGradient = "embedding-backward";
  enum { kTokens, kTable, kY };

  int64_t rows = 0;      // N
  int64_t vocab = 0;     // V
  int64_t channels = 0;  // C
  program::Group group = program::Group::kNone;
  program::DType type = program::DType::kF32;
  double scale = 1;
  int64_t whole = 0;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  double BytesMoved() const;  // of the table, the rows that are read
  static EmbeddingForward Example() { return {.rows = 3, .vocab = 7, .channels = 4}; }
};

struct EmbeddingBackward {
  static constexpr program::OpKind kKind = program::OpKind::kEmbeddingBackward;
  static constexpr const char* kSummary =
      "dtable[tokens[n]] += dy[n] × scale, in ascending n (f32). With a group as forward; tokens "
      "outside are passed over.";
  enum { kTokens, kDy, kDtable };

  int64_t rows = 0, vocab = 0, channels = 0;
  program::Group group = program::Group::kNone;
  program::DType type = program::DType::kF32;
  double scale = 1;
  int64_t whole = 0;

  void Visit(AttributeVisitor& visitor);
  OperandSpecs Operands() const;
  double BytesMoved() const;
  static EmbeddingBackward Example() { return {.rows = 3, .vocab = 7, .channels = 4}; }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_EMBEDDING_H_
