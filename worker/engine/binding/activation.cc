#include "kernels/activation.h"

#include "ops/activation.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

kernels::Function FunctionOf(ops::Function function) {
  switch (function) {
    case ops::Function::kGeluTanh:
      return kernels::Function::kGeluTanh;
    case ops::Function::kGelu:
      return kernels::Function::kGelu;
    case ops::Function::kSilu:
      break;
  }
  return kernels::Function::kSilu;
}

}  // namespace

BoundOp BindSwigluForward(OpReader& reader) {
  using Op = ops::SwigluForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), rows = op->rows, ffn = op->ffn,
            function = FunctionOf(op->function), gate_up = reader.As<T>(Op::kGateUp),
            h = reader.As<T>(Op::kH)] {
      kernels::GatedForward(context, rows, ffn, function, gate_up, h);
      return absl::OkStatus();
    };
  });
}

BoundOp BindSwigluBackward(OpReader& reader) {
  using Op = ops::SwigluBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), rows = op->rows, ffn = op->ffn,
            function = FunctionOf(op->function), dh = reader.As<T>(Op::kDh),
            gate_up = reader.As<T>(Op::kGateUp), dgate_up = reader.As<T>(Op::kDgateUp)] {
      kernels::GatedBackward(context, rows, ffn, function, dh, gate_up, dgate_up);
      return absl::OkStatus();
    };
  });
}

BoundOp BindActivate(OpReader& reader) {
  using Op = ops::Activate;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [context = reader.context(), count = op->rows * op->ffn,
         function = FunctionOf(op->function), x = reader.As<T>(Op::kX), h = reader.As<T>(Op::kH)] {
          kernels::ActivationForward(context, count, function, x, h);
          return absl::OkStatus();
        };
  });
}

BoundOp BindActivateBackward(OpReader& reader) {
  using Op = ops::ActivateBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), count = op->rows * op->ffn,
            function = FunctionOf(op->function), dh = reader.As<T>(Op::kDh),
            x = reader.As<T>(Op::kX), dx = reader.As<T>(Op::kDx)] {
      kernels::ActivationBackward(context, count, function, dh, x, dx);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
