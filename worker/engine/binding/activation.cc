#include "kernels/swiglu.h"

#include "ops/activation.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

BoundOp BindSwigluForward(OpReader& reader) {
  using Op = ops::SwigluForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [context = reader.context(), rows = op->rows, ffn = op->ffn,
          gate_up = reader.F32(Op::kGateUp), h = reader.F32(Op::kH)] {
    kernels::SwiGluForward(context, rows, ffn, gate_up, h);
    return absl::OkStatus();
  };
}

BoundOp BindSwigluBackward(OpReader& reader) {
  using Op = ops::SwigluBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [context = reader.context(), rows = op->rows, ffn = op->ffn, dh = reader.F32(Op::kDh),
          gate_up = reader.F32(Op::kGateUp), dgate_up = reader.F32(Op::kDgateUp)] {
    kernels::SwiGluBackward(context, rows, ffn, dh, gate_up, dgate_up);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
