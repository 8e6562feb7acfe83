#include "kernels/headnorm.h"

#include "ops/headnorm.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

kernels::HeadNormShape HeadShapeOf(const ops::HeadNormShape& shape) {
  return {.rows = shape.rows,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_size = shape.head_size,
          .plus_one = shape.plus_one};
}

}  // namespace

BoundOp BindHeadNormForward(OpReader& reader) {
  using Op = ops::HeadNormForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = HeadShapeOf(op->shape),
            epsilon = static_cast<float>(op->epsilon), qkv = reader.As<T>(Op::kQkv),
            wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk), out = reader.As<T>(Op::kOut),
            rstd = reader.F32(Op::kRstd)] {
      kernels::HeadNormForward(context, shape, epsilon, qkv, wq, wk, out, rstd);
      return absl::OkStatus();
    };
  });
}

BoundOp BindHeadNormReplay(OpReader& reader) {
  using Op = ops::HeadNormReplay;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = HeadShapeOf(op->shape),
            qkv = reader.As<T>(Op::kQkv), wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk),
            rstd = reader.F32(Op::kRstd), out = reader.As<T>(Op::kOut)] {
      kernels::HeadNormReplay(context, shape, qkv, wq, wk, rstd, out);
      return absl::OkStatus();
    };
  });
}

BoundOp BindHeadNormBackward(OpReader& reader) {
  using Op = ops::HeadNormBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::HeadNormShape shape = HeadShapeOf(op->shape);
  void* workspace =
      reader.Workspace(op->frozen ? 0 : kernels::HeadNormBackwardWorkspaceBytes(shape));
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape, dout = reader.As<T>(Op::kDout),
            qkv = reader.As<T>(Op::kQkv), wq = reader.As<T>(Op::kWq), wk = reader.As<T>(Op::kWk),
            rstd = reader.F32(Op::kRstd), dqkv = reader.As<T>(Op::kDqkv),
            dwq = op->frozen ? nullptr : reader.F32(Op::kDwq),
            dwk = op->frozen ? nullptr : reader.F32(Op::kDwk), workspace] {
      kernels::HeadNormBackward(context, shape, dout, qkv, wq, wk, rstd, dqkv, dwq, dwk, workspace);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
