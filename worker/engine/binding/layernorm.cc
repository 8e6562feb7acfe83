#include "kernels/layernorm.h"

#include "ops/layernorm.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::LayerNormShape LayerShapeOf(const Op& op) {
  return {.rows = op.rows, .channels = op.channels};
}

}  // namespace

BoundOp BindLayerNormForward(OpReader& reader) {
  using Op = ops::LayerNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = LayerShapeOf(*op),
            epsilon = static_cast<float>(op->epsilon), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), b = reader.As<T>(Op::kB), y = reader.As<T>(Op::kY),
            statistics = reader.F32(Op::kStatistics)] {
      kernels::LayerNormForward(context, shape, epsilon, x, w, b, y, statistics);
      return absl::OkStatus();
    };
  });
}

BoundOp BindAddLayerNormForward(OpReader& reader) {
  using Op = ops::AddLayerNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = LayerShapeOf(*op),
            epsilon = static_cast<float>(op->epsilon), x = reader.As<T>(Op::kX),
            branch = reader.As<T>(Op::kBranch), w = reader.As<T>(Op::kW), b = reader.As<T>(Op::kB),
            sum = reader.As<T>(Op::kSum), y = reader.As<T>(Op::kY),
            statistics = reader.F32(Op::kStatistics)] {
      kernels::AddLayerNormForward(context, shape, epsilon, x, branch, w, b, sum, y, statistics);
      return absl::OkStatus();
    };
  });
}

BoundOp BindLayerNormReplay(OpReader& reader) {
  using Op = ops::LayerNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = LayerShapeOf(*op), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), b = reader.As<T>(Op::kB),
            statistics = reader.F32(Op::kStatistics), y = reader.As<T>(Op::kY)] {
      kernels::LayerNormReplay(context, shape, x, w, b, statistics, y);
      return absl::OkStatus();
    };
  });
}

BoundOp BindLayerNormBackward(OpReader& reader) {
  using Op = ops::LayerNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::LayerNormShape shape = LayerShapeOf(*op);
  void* workspace =
      reader.Workspace(op->frozen ? 0 : kernels::LayerNormBackwardWorkspaceBytes(shape));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape, accumulate = op->accumulate,
            dy = reader.As<T>(Op::kDy), x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW),
            statistics = reader.F32(Op::kStatistics), dx = reader.As<T>(Op::kDx),
            dw = op->frozen ? nullptr : reader.F32(Op::kDw),
            db = op->frozen ? nullptr : reader.F32(Op::kDb), workspace] {
      kernels::LayerNormBackward(context, shape, dy, x, w, statistics, accumulate, dx, dw, db,
                                 workspace);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
