#include "kernels/cuda/matmul.h"

#include "ops/backend.h"
#include "ops/bias.h"
#include "ops/matmul.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

// `bias`: of the result's columns; null: none.
BoundOp Launch(OpReader& reader, const Launching& at, const std::byte* bias) {
  using Op = ops::MatMul;
  const absl::StatusOr<kernels::MatmulShape> shape = MatmulShapeOf(reader.op());
  if (!shape.ok()) {
    reader.Fail(shape.status());
    return {};
  }
  // Slots begin at less than the library's alignment: the workspace has room to move up.
  const auto alignment = static_cast<uintptr_t>(ops::Backend().cuda_alignment_bytes);
  void* const given = reader.Workspace(at.products->workspace_bytes() + alignment);
  const auto place = (reinterpret_cast<uintptr_t>(given) + alignment - 1) / alignment * alignment;
  void* const workspace = reinterpret_cast<void*>(place);
  std::byte* const a = reader.Data(Op::kA);
  std::byte* const b = reader.Data(Op::kB);
  std::byte* const c = reader.Data(Op::kC);
  const absl::StatusOr<const kernels::cuda::MatmulPlan*> plan = at.products->Plan(
      *shape, {.bias = bias != nullptr, .alignment = kernels::cuda::PointerAlignment({a, b, c})});
  if (!plan.ok()) {
    reader.Fail(plan.status());
    return {};
  }
  return [stream = at.stream, plan = *plan, a, b, c, workspace, bias] {
    return plan->Run(stream, a, b, c, workspace, bias);
  };
}

}  // namespace

BoundOp LaunchMatMul(OpReader& reader, const Launching& at) {
  return reader.Read<ops::MatMul>() ? Launch(reader, at, nullptr) : BoundOp();
}

BoundOp LaunchMatMulWithBias(OpReader& product, OpReader& bias, const Launching& at) {
  using Product = ops::MatMul;
  using Bias = ops::AddBias;
  const std::optional<Product> of = product.Read<Product>();
  const std::optional<Bias> by = bias.Read<Bias>();
  if (!of || !by) return {};
  const bool same_matrix = product.Data(Product::kC) == bias.Data(Bias::kY) && of->m == by->rows &&
                           of->n == by->width && (of->ldc == 0 || of->ldc == of->n) &&
                           of->out_type == by->type;
  const std::byte* const b = bias.Data(Bias::kB);
  if (!same_matrix || kernels::cuda::PointerAlignment({b}) < kernels::cuda::kBiasAlignment) {
    return {};
  }
  BoundOp both = Launch(product, at, b);
  return product.status().ok() ? std::move(both) : BoundOp();
}

}  // namespace strata::worker
