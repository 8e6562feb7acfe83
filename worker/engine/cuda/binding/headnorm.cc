#include "kernels/cuda/headnorm.h"

#include "ops/headnorm.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

kernels::cuda::HeadNormShape ShapeOf(const ops::HeadNormShape& shape) {
  return {.rows = shape.rows,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_size = shape.head_size,
          .plus_one = shape.plus_one};
}

}  // namespace

BoundOp LaunchHeadNormForward(OpReader& reader, const Launching& at) {
  using Op = ops::HeadNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return
        [stream = at.stream, shape = ShapeOf(op->shape), epsilon = static_cast<float>(op->epsilon),
         qkv = reader.As<T>(Op::kQkv), wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk),
         out = reader.As<T>(Op::kOut), rstd = reader.F32(Op::kRstd)] {
          return kernels::cuda::HeadNormForward<T>(stream, shape, epsilon, qkv, wq, wk, out, rstd);
        };
  });
}

BoundOp LaunchHeadNormReplay(OpReader& reader, const Launching& at) {
  using Op = ops::HeadNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(op->shape), qkv = reader.As<T>(Op::kQkv),
            wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk), rstd = reader.F32(Op::kRstd),
            out = reader.As<T>(Op::kOut)] {
      return kernels::cuda::HeadNormReplay<T>(stream, shape, qkv, wq, wk, rstd, out);
    };
  });
}

BoundOp LaunchHeadNormBackward(OpReader& reader, const Launching& at) {
  using Op = ops::HeadNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::cuda::HeadNormShape shape = ShapeOf(op->shape);
  auto* const workspace = static_cast<float*>(
      reader.Workspace(op->frozen ? 0 : kernels::cuda::HeadNormBackwardWorkspaceBytes(shape)));
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, dout = reader.As<T>(Op::kDout), qkv = reader.As<T>(Op::kQkv),
            wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk), rstd = reader.F32(Op::kRstd),
            dqkv = reader.As<T>(Op::kDqkv), dwq = op->frozen ? nullptr : reader.F32(Op::kDwq),
            dwk = op->frozen ? nullptr : reader.F32(Op::kDwk), workspace] {
      return kernels::cuda::HeadNormBackward<T>(stream, shape, dout, qkv, wq, wk, rstd, dqkv, dwq,
                                                dwk, workspace);
    };
  });
}

}  // namespace strata::worker
