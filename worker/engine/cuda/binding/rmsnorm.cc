#include "kernels/cuda/rmsnorm.h"

#include "ops/rmsnorm.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::cuda::RmsNormShape ShapeOf(const Op& op) {
  return {.rows = op.rows, .channels = op.channels, .plus_one = op.plus_one};
}

}  // namespace

BoundOp LaunchRmsNormForward(OpReader& reader, const Launching& at) {
  using Op = ops::RmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), epsilon = static_cast<float>(op->epsilon),
            x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW), y = reader.As<T>(Op::kY),
            rstd = reader.F32(Op::kRstd)] {
      return kernels::cuda::RmsNormForward<T>(stream, shape, epsilon, x, w, y, rstd);
    };
  });
}

BoundOp LaunchAddRmsNormForward(OpReader& reader, const Launching& at) {
  using Op = ops::AddRmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), epsilon = static_cast<float>(op->epsilon),
            x = reader.As<T>(Op::kX), branch = reader.As<T>(Op::kBranch), w = reader.As<T>(Op::kW),
            sum = reader.As<T>(Op::kSum), y = reader.As<T>(Op::kY), rstd = reader.F32(Op::kRstd)] {
      return kernels::cuda::AddRmsNormForward<T>(stream, shape, epsilon, x, branch, w, sum, y,
                                                 rstd);
    };
  });
}

BoundOp LaunchRmsNormReplay(OpReader& reader, const Launching& at) {
  using Op = ops::RmsNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), rstd = reader.F32(Op::kRstd), y = reader.As<T>(Op::kY)] {
      return kernels::cuda::RmsNormReplay<T>(stream, shape, x, w, rstd, y);
    };
  });
}

BoundOp LaunchRmsNormBackward(OpReader& reader, const Launching& at) {
  using Op = ops::RmsNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  auto* const workspace = static_cast<float*>(reader.Workspace(
      op->frozen ? 0 : kernels::cuda::RmsNormBackwardWorkspaceBytes(op->rows, op->channels)));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), accumulate = op->accumulate,
            dy = reader.As<T>(Op::kDy), x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW),
            rstd = reader.F32(Op::kRstd), dx = reader.As<T>(Op::kDx),
            dw = op->frozen ? nullptr : reader.F32(Op::kDw), workspace] {
      return kernels::cuda::RmsNormBackward<T>(stream, shape, dy, x, w, rstd, accumulate, dx, dw,
                                               workspace);
    };
  });
}

}  // namespace strata::worker
