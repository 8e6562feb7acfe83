#include "ops/elementwise.h"

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/step.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchAdd(OpReader& reader, const Launching& at) {
  using Op = ops::Add;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [stream = at.stream, count = op->elements, src = reader.As<T>(Op::kSrc),
         dst = reader.As<T>(Op::kDst)] { return kernels::cuda::Add<T>(stream, count, src, dst); };
  });
}

BoundOp LaunchCopy(OpReader& reader, const Launching& at) {
  using Op = ops::Copy;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [stream = at.stream, bytes = op->bytes, src = reader.Data(Op::kSrc),
          dst = reader.Data(Op::kDst)] { return kernels::cuda::Copy(stream, bytes, src, dst); };
}

BoundOp LaunchZero(OpReader& reader, const Launching& at) {
  using Op = ops::Zero;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [stream = at.stream, bytes = op->bytes, dst = reader.Data(Op::kDst)] {
    return kernels::cuda::Zero(stream, bytes, dst);
  };
}

BoundOp LaunchScale(OpReader& reader, const Launching& at) {
  using Op = ops::Scale;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, count = op->elements, factor = static_cast<float>(op->factor),
            dst = reader.As<T>(Op::kDst)] {
      return kernels::cuda::Scale<T>(stream, count, factor, dst);
    };
  });
}

BoundOp LaunchSoftcap(OpReader& reader, const Launching& at) {
  using Op = ops::Softcap;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, count = op->elements, cap = static_cast<float>(op->cap),
            x = reader.As<T>(Op::kX)] { return kernels::cuda::Softcap<T>(stream, count, cap, x); };
  });
}

BoundOp LaunchSumSquares(OpReader& reader, const Launching& at) {
  using Op = ops::SumSquares;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  static_assert(kernels::cuda::kSumSquaresWorkspaceBytes <= kStreamScratchBytes);
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, count = op->count, x = reader.As<T>(Op::kX),
            out = reader.F64(Op::kOut), scratch = at.scratch] {
      return kernels::cuda::SumSquares<T>(stream, count, x, out, scratch);
    };
  });
}

}  // namespace strata::worker
