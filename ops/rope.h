// Rotary positions (Su et al., "RoFormer", 2021, eq. 34) on packed query and key heads.
#ifndef STRATA_OPS_ROPE_H_
#define STRATA_OPS_ROPE_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Rope {
  static constexpr program::OpKind kKind = program::OpKind::kRope;
  static constexpr const char* kSummary =
      "Turns query and key heads in place by their positions' angles (Su et al., \"RoFormer\", "
      "2021, eq. 34, half-split): of each head the first `rotary` elements, R (0: all), element i "
      "with i + R/2. Row n stands at (use_position ? kPosition : 0) + n mod T; scalars are an "
      "operand only with use_position, and rows are then those of one sequence. With `documents` "
      "row n stands at positions [N] (i32), which takes the scalars' place, and no other row of "
      "the table is read.";
  static constexpr const char* kGradient = "itself with inverse";
  enum { kQkv, kTable, kScalars, kPositions = kScalars };

  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  bool inverse = false, use_position = false, documents = false;
  int64_t rotary = 0;  // 0: the head size
  program::DType type = program::DType::kF32;

  int64_t width() const { return rotary == 0 ? head_size : rotary; }  // R
  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  double BytesMoved() const;  // what does not turn stays where it is
  static Rope Example();
};

}  // namespace strata::ops

#endif  // STRATA_OPS_ROPE_H_
