#include "ops/rope.h"

#include <algorithm>

namespace strata::ops {

using program::Access;
using program::DType;
using program::Scalar;

void Rope::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("sequence", sequence);
  visitor.Size("heads", heads);
  visitor.Size("kv_heads", kv_heads);
  visitor.Size("head_size", head_size);
  visitor.Flag("inverse", inverse);
  visitor.Flag("use_position", use_position);
  const bool more = rotary != 0 || type != DType::kF32;
  if (visitor.HasMore(documents || more)) {
    visitor.Flag("documents", documents);
    if (visitor.HasMore(more)) {
      visitor.Count("rotary", rotary);
      visitor.Type("type", type);
    }
  }
}

absl::Status Rope::Validate() const {
  if (rotary > head_size) return Require(false, "more elements turn than a head has");
  if (width() % 2 != 0) return Require(false, "an odd number of elements turns");
  if (documents && use_position) return Require(false, "rows have positions twice");
  return Require(!use_position || rows == sequence, "rows at a position are of one sequence");
}

OperandSpecs Rope::Operands() const {
  OperandSpecs operands = {
      InOut("qkv", "[N, (H + 2K)·D]", rows * (heads + 2 * kv_heads) * head_size, type),
      In("table", "[context, R]", std::min(rows, sequence) * width()).OrMore()};
  if (use_position) {
    operands.push_back(
        Scalars("scalars", "kPosition", Access::kRead, Scalar::kPosition, Scalar::kPosition));
  }
  if (documents) operands.push_back(In("positions", "[N]", rows, DType::kI32));
  return operands;
}

double Rope::BytesMoved() const {
  const int64_t turned = rows * (heads + kv_heads) * width();
  return static_cast<double>(2 * turned * SizeOf(type) + 4 * std::min(rows, sequence) * width());
}

Rope Rope::Example() {
  return {.rows = 3,
          .sequence = 3,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 6,
          .inverse = true,
          .use_position = true};
}

}  // namespace strata::ops
