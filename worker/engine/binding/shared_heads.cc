#include "ops/shared_heads.h"

#include "kernels/elementwise.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

// Runs the kernel on each block: its elements, the rank's part of all, its own.
template <typename Op, typename Kernel>
BoundOp BindBlocks(OpReader& reader, Kernel kernel) {
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const ops::SharedHeads of = op->of;
  return [context = reader.context(), of, kernel,
          all = reader.F32(Op::kAll) + reader.IndexIn(of.group) / of.share * of.elements,
          own = reader.F32(Op::kOwn)] {
    for (int64_t b = 0; b < of.blocks; ++b) {
      kernel(context, of.elements, all + b * of.parts * of.elements, own + b * of.elements);
    }
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindTakeHeads(OpReader& reader) {
  return BindBlocks<ops::TakeHeads>(
      reader, [](const kernels::Context& context, int64_t count, const float* all, float* own) {
        kernels::Copy(context, count, all, own);
      });
}

BoundOp BindAddHeads(OpReader& reader) {
  return BindBlocks<ops::AddHeads>(
      reader, [](const kernels::Context& context, int64_t count, float* all, const float* own) {
        kernels::Add(context, count, own, all);
      });
}

}  // namespace strata::worker
