#include "kernels/cuda/matmul.h"

#include "ops/backend.h"
#include "ops/matmul.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchMatMul(OpReader& reader, const Launching& at) {
  using Op = ops::MatMul;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
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
  const absl::StatusOr<const kernels::cuda::MatmulPlan*> plan =
      at.products->Plan(*shape, {.alignment = kernels::cuda::PointerAlignment({a, b, c})});
  if (!plan.ok()) {
    reader.Fail(plan.status());
    return {};
  }
  return [stream = at.stream, plan = *plan, a, b, c, workspace] {
    return plan->Run(stream, a, b, c, workspace);
  };
}

}  // namespace strata::worker
