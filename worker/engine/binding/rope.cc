#include "kernels/rope.h"

#include <algorithm>

#include "common/status_macros.h"
#include "ops/rope.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/binding/positions.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename T>
BoundOp BindRopeOf(const OpReader& reader, const ops::Rope& op) {
  using Op = ops::Rope;
  const kernels::RopeShape shape{.rows = op.rows,
                                 .sequence = op.sequence,
                                 .heads = op.heads,
                                 .kv_heads = op.kv_heads,
                                 .head_size = op.head_size,
                                 .rotary = op.rotary};
  const kernels::Context context = reader.context();
  const bool inverse = op.inverse;
  T* qkv = reader.As<T>(Op::kQkv);
  const float* table = reader.F32(Op::kTable);
  const int64_t table_rows = reader.operand(Op::kTable).bytes / 4 / shape.width();
  if (op.documents) {
    return [context, shape, table, table_rows, positions = reader.I32(Op::kPositions), inverse,
            qkv]() -> absl::Status {
      RETURN_IF_ERROR(CheckPositions(positions, shape.rows, table_rows));
      kernels::RopeApply(context, shape, table, positions, inverse, qkv);
      return absl::OkStatus();
    };
  }
  if (!op.use_position) {
    return [context, shape, table, inverse, qkv] {
      kernels::RopeApply(context, shape, table, nullptr, inverse, qkv);
      return absl::OkStatus();
    };
  }
  return [context, shape, table, table_rows, inverse, qkv, scalars = reader.Scalars(Op::kScalars)] {
    kernels::RopeShape now = shape;
    now.start = static_cast<int64_t>(scalars[static_cast<int>(program::Scalar::kPosition)]);
    if (now.start < 0) return absl::OutOfRangeError("a position is negative");
    // A chunk's padding may reach beyond the context; nothing reads it.
    now.rows = now.sequence = std::min(shape.rows, table_rows - now.start);
    if (now.rows > 0) kernels::RopeApply(context, now, table, nullptr, inverse, qkv);
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindRope(OpReader& reader) {
  const std::optional<ops::Rope> op = reader.Read<ops::Rope>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) { return BindRopeOf<T>(reader, *op); });
}

}  // namespace strata::worker
