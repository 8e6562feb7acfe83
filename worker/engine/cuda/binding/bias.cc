#include "kernels/cuda/bias.h"

#include "ops/bias.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchAddBias(OpReader& reader, const Launching& at) {
  using Op = ops::AddBias;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [stream = at.stream, rows = op->rows, width = op->width, b = reader.As<T>(Op::kB),
         y = reader.As<T>(Op::kY)] { return kernels::cuda::AddBias<T>(stream, rows, width, b, y); };
  });
}

BoundOp LaunchBiasGradient(OpReader& reader, const Launching& at) {
  using Op = ops::BiasGradient;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  auto* const workspace = static_cast<float*>(
      reader.Workspace(kernels::cuda::BiasGradientWorkspaceBytes(op->rows, op->width)));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, rows = op->rows, width = op->width, dy = reader.As<T>(Op::kDy),
            db = reader.F32(Op::kDb), workspace] {
      return kernels::cuda::BiasGradient<T>(stream, rows, width, dy, db, workspace);
    };
  });
}

}  // namespace strata::worker
