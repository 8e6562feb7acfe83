#include "kernels/rmsnorm.h"

#include "ops/rmsnorm.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

BoundOp BindRmsNormForward(OpReader& reader) {
  using Op = ops::RmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [context = reader.context(), rows = op->rows, channels = op->channels,
          epsilon = static_cast<float>(op->epsilon), x = reader.F32(Op::kX), w = reader.F32(Op::kW),
          y = reader.F32(Op::kY), rstd = reader.F32(Op::kRstd)] {
    kernels::RmsNormForward(context, rows, channels, epsilon, x, w, y, rstd);
    return absl::OkStatus();
  };
}

BoundOp BindAddRmsNormForward(OpReader& reader) {
  using Op = ops::AddRmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [context = reader.context(), rows = op->rows, channels = op->channels,
          epsilon = static_cast<float>(op->epsilon), x = reader.F32(Op::kX),
          branch = reader.F32(Op::kBranch), w = reader.F32(Op::kW), sum = reader.F32(Op::kSum),
          y = reader.F32(Op::kY), rstd = reader.F32(Op::kRstd)] {
    kernels::AddRmsNormForward(context, rows, channels, epsilon, x, branch, w, sum, y, rstd);
    return absl::OkStatus();
  };
}

BoundOp BindRmsNormReplay(OpReader& reader) {
  using Op = ops::RmsNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return
      [context = reader.context(), rows = op->rows, channels = op->channels, x = reader.F32(Op::kX),
       w = reader.F32(Op::kW), rstd = reader.F32(Op::kRstd), y = reader.F32(Op::kY)] {
        kernels::RmsNormReplay(context, rows, channels, x, w, rstd, y);
        return absl::OkStatus();
      };
}

BoundOp BindRmsNormBackward(OpReader& reader) {
  using Op = ops::RmsNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace =
      reader.Workspace(kernels::RmsNormBackwardWorkspaceBytes(op->rows, op->channels));
  return [context = reader.context(), rows = op->rows, channels = op->channels,
          accumulate = op->accumulate, dy = reader.F32(Op::kDy), x = reader.F32(Op::kX),
          w = reader.F32(Op::kW), rstd = reader.F32(Op::kRstd), dx = reader.F32(Op::kDx),
          dw = reader.F32(Op::kDw), workspace] {
    kernels::RmsNormBackward(context, rows, channels, dy, x, w, rstd, accumulate, dx, dw,
                             workspace);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
