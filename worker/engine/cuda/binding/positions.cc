#include "kernels/cuda/positions.h"

#include "ops/positions.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::cuda::PositionsShape ShapeOf(const OpReader& reader, const Op& op) {
  return {.rows = op.rows,
          .sequence = op.sequence,
          .channels = op.channels,
          .context = op.context,
          .first = op.first + reader.IndexIn(op.group) * op.rows};
}

}  // namespace

BoundOp LaunchAddPositions(OpReader& reader, const Launching& at) {
  using Op = ops::AddPositions;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int32_t* const positions =
      op->documents ? reader.I32(Op::kPositions) + reader.IndexIn(op->group) * op->rows : nullptr;
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    kernels::cuda::PositionsShape shape = ShapeOf(reader, *op);
    if (op->use_position) {
      shape.start_at = reader.Scalars(Op::kScalars) + static_cast<int>(program::Scalar::kPosition);
    }
    return [stream = at.stream, shape, table = reader.As<T>(Op::kTable), positions,
            y = reader.As<T>(Op::kY)] {
      return kernels::cuda::AddPositions<T>(stream, shape, table, positions, y);
    };
  });
}

BoundOp LaunchPositionsGradient(OpReader& reader, const Launching& at) {
  using Op = ops::PositionsGradient;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int32_t* const positions =
      op->documents ? reader.I32(Op::kPositions) + reader.IndexIn(op->group) * op->rows : nullptr;
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(reader, *op), dy = reader.As<T>(Op::kDy), positions,
            dtable = reader.F32(Op::kDtable)] {
      return kernels::cuda::PositionsGradient<T>(stream, shape, dy, positions, dtable);
    };
  });
}

}  // namespace strata::worker
