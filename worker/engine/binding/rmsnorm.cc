#include "kernels/rmsnorm.h"

#include "ops/rmsnorm.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::RmsNormShape RmsShapeOf(const Op& op) {
  return {.rows = op.rows, .channels = op.channels, .plus_one = op.plus_one};
}

}  // namespace

BoundOp BindRmsNormForward(OpReader& reader) {
  using Op = ops::RmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = RmsShapeOf(*op),
            epsilon = static_cast<float>(op->epsilon), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), y = reader.As<T>(Op::kY), rstd = reader.F32(Op::kRstd)] {
      kernels::RmsNormForward(context, shape, epsilon, x, w, y, rstd);
      return absl::OkStatus();
    };
  });
}

BoundOp BindAddRmsNormForward(OpReader& reader) {
  using Op = ops::AddRmsNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = RmsShapeOf(*op),
            epsilon = static_cast<float>(op->epsilon), x = reader.As<T>(Op::kX),
            branch = reader.As<T>(Op::kBranch), w = reader.As<T>(Op::kW),
            sum = reader.As<T>(Op::kSum), y = reader.As<T>(Op::kY), rstd = reader.F32(Op::kRstd)] {
      kernels::AddRmsNormForward(context, shape, epsilon, x, branch, w, sum, y, rstd);
      return absl::OkStatus();
    };
  });
}

BoundOp BindRmsNormReplay(OpReader& reader) {
  using Op = ops::RmsNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = RmsShapeOf(*op), x = reader.As<T>(Op::kX),
            w = reader.As<T>(Op::kW), rstd = reader.F32(Op::kRstd), y = reader.As<T>(Op::kY)] {
      kernels::RmsNormReplay(context, shape, x, w, rstd, y);
      return absl::OkStatus();
    };
  });
}

BoundOp BindRmsNormBackward(OpReader& reader) {
  using Op = ops::RmsNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int64_t needed =
      op->frozen ? 0 : kernels::RmsNormBackwardWorkspaceBytes(op->rows, op->channels);
  void* workspace = reader.Workspace(needed);
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = RmsShapeOf(*op), accumulate = op->accumulate,
            dy = reader.As<T>(Op::kDy), x = reader.As<T>(Op::kX), w = reader.As<T>(Op::kW),
            rstd = reader.F32(Op::kRstd), dx = reader.As<T>(Op::kDx),
            dw = op->frozen ? nullptr : reader.F32(Op::kDw), workspace] {
      kernels::RmsNormBackward(context, shape, dy, x, w, rstd, accumulate, dx, dw, workspace);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
