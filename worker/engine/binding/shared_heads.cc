#include "ops/shared_heads.h"

#include "kernels/elementwise.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

// Runs the kernel on each block: its elements, the rank's part of all, its own.
template <typename T, typename Op, typename Kernel>
BoundOp BindBlocks(const OpReader& reader, const Op& op, Kernel kernel) {
  const ops::SharedHeads of = op.of;
  return [context = reader.context(), of, kernel,
          all = reader.As<T>(Op::kAll) + reader.IndexIn(of.group) / of.share * of.elements,
          own = reader.As<T>(Op::kOwn)] {
    for (int64_t b = 0; b < of.blocks; ++b) {
      kernel(context, of.elements, all + b * of.parts * of.elements, own + b * of.elements);
    }
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindTakeHeads(OpReader& reader) {
  const std::optional<ops::TakeHeads> op = reader.Read<ops::TakeHeads>();
  if (!op) return {};
  return WithNumber(op->of.type, [&]<typename T>(T) -> BoundOp {
    return BindBlocks<T>(reader, *op,
                         [](const kernels::Context& context, int64_t count, const T* all, T* own) {
                           kernels::Copy(context, count, all, own);
                         });
  });
}

BoundOp BindAddHeads(OpReader& reader) {
  const std::optional<ops::AddHeads> op = reader.Read<ops::AddHeads>();
  if (!op) return {};
  return WithNumber(op->of.type, [&]<typename T>(T) -> BoundOp {
    return BindBlocks<T>(reader, *op,
                         [](const kernels::Context& context, int64_t count, T* all, const T* own) {
                           kernels::Add<T>(context, count, own, all);
                         });
  });
}

}  // namespace strata::worker
