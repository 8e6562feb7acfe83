#include "kernels/bias.h"

#include "ops/bias.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

BoundOp BindAddBias(OpReader& reader) {
  using Op = ops::AddBias;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), rows = op->rows, width = op->width,
            b = reader.As<T>(Op::kB), y = reader.As<T>(Op::kY)] {
      kernels::AddBias(context, rows, width, b, y);
      return absl::OkStatus();
    };
  });
}

BoundOp BindBiasGradient(OpReader& reader) {
  using Op = ops::BiasGradient;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(kernels::BiasGradientWorkspaceBytes(op->rows, op->width));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), rows = op->rows, width = op->width,
            dy = reader.As<T>(Op::kDy), db = reader.F32(Op::kDb), workspace] {
      kernels::BiasGradient(context, rows, width, dy, db, workspace);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
