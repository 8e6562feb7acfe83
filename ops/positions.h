// Learned positions: rows of a table that are added to the tokens' rows.
#ifndef STRATA_OPS_POSITIONS_H_
#define STRATA_OPS_POSITIONS_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct AddPositions {
  static constexpr program::OpKind kKind = program::OpKind::kAddPositions;
  static constexpr const char* kSummary =
      "y[n] += table[position of n]: row n is row i = first + (own index in the group) × N + n of "
      "a pass, and stands at (use_position ? kPosition : 0) + i mod T; rows of a chunk that "
      "reaches "
      "beyond the context stay what they are. With `documents` it stands at positions [parts × N] "
      "(i32, of the group's rows from `first` on), which take the scalars' place.";
  static constexpr const char* kGradient = "positions-gradient; y's stays what it is";
  enum { kY, kTable, kScalars, kPositions = kScalars };

  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t channels = 0;  // C
  int64_t context = 0;   // rows of the table
  bool use_position = false, documents = false;
  program::DType type = program::DType::kF32;
  int64_t first = 0;
  program::Group group = program::Group::kNone;  // each member has N rows, one behind the other
  int64_t parts = 1;                             // its members

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double BytesMoved() const;  // of the table, the rows that are read
  static AddPositions Example() {
    return {.rows = 3, .sequence = 3, .channels = 4, .context = 5, .use_position = true};
  }
};

struct PositionsGradient {
  static constexpr program::OpKind kKind = program::OpKind::kPositionsGradient;
  static constexpr const char* kSummary =
      "dtable[position of n] += dy[n] (f32), in ascending n; positions as in add-positions.";
  enum { kDy, kDtable, kPositions };

  int64_t rows = 0, sequence = 0, channels = 0, context = 0;
  bool documents = false;
  program::DType type = program::DType::kF32;
  int64_t first = 0;
  program::Group group = program::Group::kNone;
  int64_t parts = 1;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double BytesMoved() const;
  static PositionsGradient Example() {
    return {.rows = 6, .sequence = 3, .channels = 4, .context = 5};
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_POSITIONS_H_
