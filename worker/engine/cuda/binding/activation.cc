#include "kernels/cuda/activation.h"

#include "ops/activation.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

kernels::cuda::Function FunctionOf(ops::Function function) {
  switch (function) {
    case ops::Function::kGeluTanh:
      return kernels::cuda::Function::kGeluTanh;
    case ops::Function::kGelu:
      return kernels::cuda::Function::kGelu;
    case ops::Function::kSilu:
      break;
  }
  return kernels::cuda::Function::kSilu;
}

}  // namespace

BoundOp LaunchSwigluForward(OpReader& reader, const Launching& at) {
  using Op = ops::SwigluForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, rows = op->rows, ffn = op->ffn, function = FunctionOf(op->function),
            gate_up = reader.As<T>(Op::kGateUp), h = reader.As<T>(Op::kH)] {
      return kernels::cuda::GatedForward<T>(stream, rows, ffn, function, gate_up, h);
    };
  });
}

BoundOp LaunchSwigluBackward(OpReader& reader, const Launching& at) {
  using Op = ops::SwigluBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, rows = op->rows, ffn = op->ffn, function = FunctionOf(op->function),
            dh = reader.As<T>(Op::kDh), gate_up = reader.As<T>(Op::kGateUp),
            dgate_up = reader.As<T>(Op::kDgateUp)] {
      return kernels::cuda::GatedBackward<T>(stream, rows, ffn, function, dh, gate_up, dgate_up);
    };
  });
}

BoundOp LaunchActivate(OpReader& reader, const Launching& at) {
  using Op = ops::Activate;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, count = op->rows * op->ffn, function = FunctionOf(op->function),
            x = reader.As<T>(Op::kX), h = reader.As<T>(Op::kH)] {
      return kernels::cuda::ActivationForward<T>(stream, count, function, x, h);
    };
  });
}

BoundOp LaunchActivateBackward(OpReader& reader, const Launching& at) {
  using Op = ops::ActivateBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, count = op->rows * op->ffn, function = FunctionOf(op->function),
            dh = reader.As<T>(Op::kDh), x = reader.As<T>(Op::kX), dx = reader.As<T>(Op::kDx)] {
      return kernels::cuda::ActivationBackward<T>(stream, count, function, dh, x, dx);
    };
  });
}

}  // namespace strata::worker
