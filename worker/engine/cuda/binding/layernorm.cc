#include "kernels/cuda/layernorm.h"

#include "ops/layernorm.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::cuda::LayerNormShape ShapeOf(const Op& op) {
  return {.rows = op.rows, .channels = op.channels};
}

}  // namespace

BoundOp LaunchLayerNormForward(OpReader& reader, const Launching& at) {
  using Op = ops::LayerNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), epsilon = static_cast<float>(op->epsilon),
            x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW), b = reader.As<T>(Op::kB),
            y = reader.As<T>(Op::kY), statistics = reader.F32(Op::kStatistics)] {
      return kernels::cuda::LayerNormForward<T>(stream, shape, epsilon, x, w, b, y, statistics);
    };
  });
}

BoundOp LaunchAddLayerNormForward(OpReader& reader, const Launching& at) {
  using Op = ops::AddLayerNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), epsilon = static_cast<float>(op->epsilon),
            x = reader.As<T>(Op::kX), branch = reader.As<T>(Op::kBranch), w = reader.As<T>(Op::kW),
            b = reader.As<T>(Op::kB), sum = reader.As<T>(Op::kSum), y = reader.As<T>(Op::kY),
            statistics = reader.F32(Op::kStatistics)] {
      return kernels::cuda::AddLayerNormForward<T>(stream, shape, epsilon, x, branch, w, b, sum, y,
                                                   statistics);
    };
  });
}

BoundOp LaunchLayerNormReplay(OpReader& reader, const Launching& at) {
  using Op = ops::LayerNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), b = reader.As<T>(Op::kB),
            statistics = reader.F32(Op::kStatistics), y = reader.As<T>(Op::kY)] {
      return kernels::cuda::LayerNormReplay<T>(stream, shape, x, w, b, statistics, y);
    };
  });
}

BoundOp LaunchLayerNormBackward(OpReader& reader, const Launching& at) {
  using Op = ops::LayerNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::cuda::LayerNormShape shape = ShapeOf(*op);
  auto* const workspace = static_cast<float*>(
      reader.Workspace(op->frozen ? 0 : kernels::cuda::LayerNormBackwardWorkspaceBytes(shape)));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, accumulate = op->accumulate, dy = reader.As<T>(Op::kDy),
            x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW),
            statistics = reader.F32(Op::kStatistics), dx = reader.As<T>(Op::kDx),
            dw = op->frozen ? nullptr : reader.F32(Op::kDw),
            db = op->frozen ? nullptr : reader.F32(Op::kDb), workspace] {
      return kernels::cuda::LayerNormBackward<T>(stream, shape, dy, x, w, statistics, accumulate,
                                                 dx, dw, db, workspace);
    };
  });
}

}  // namespace strata::worker
