#include "kernels/cuda/rope.h"

#include "ops/rope.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

// Places in documents come from the host, which has checked them when it loaded the batch.
BoundOp LaunchRope(OpReader& reader, const Launching& at) {
  using Op = ops::Rope;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  kernels::cuda::RopeShape shape{.rows = op->rows,
                                 .sequence = op->sequence,
                                 .heads = op->heads,
                                 .kv_heads = op->kv_heads,
                                 .head_size = op->head_size,
                                 .rotary = op->rotary};
  if (op->use_position) {
    shape.start_at = reader.Scalars(Op::kScalars) + static_cast<int>(program::Scalar::kPosition);
    shape.table_rows = reader.operand(Op::kTable).bytes / 4 / shape.width();
  }
  const int32_t* const positions = op->documents ? reader.I32(Op::kPositions) : nullptr;
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, table = reader.F32(Op::kTable), positions,
            inverse = op->inverse, qkv = reader.As<T>(Op::kQkv)] {
      return kernels::cuda::RopeApply<T>(stream, shape, table, positions, inverse, qkv);
    };
  });
}

}  // namespace strata::worker
