#include "kernels/matmul.h"

#include "common/status_macros.h"
#include "ops/matmul.h"
#include "worker/engine/binding/number_formats.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

kernels::MatmulShape ShapeOf(const ops::MatMul& op) {
  return {.m = op.m,
          .n = op.n,
          .k = op.k,
          .trans_a = op.trans_a,
          .trans_b = op.trans_b,
          .lda = op.lda,
          .ldb = op.ldb,
          .ldc = op.ldc,
          .accumulate = op.accumulate,
          .type = NumberTypeOf(op.type),
          .out_type = NumberTypeOf(op.out_type)};
}

}  // namespace

absl::StatusOr<const kernels::MatmulPlan*> MatmulPlans::Get(const kernels::MatmulShape& shape) {
  const Key key = {shape.m,
                   shape.n,
                   shape.k,
                   shape.trans_a,
                   shape.trans_b,
                   shape.lda,
                   shape.ldb,
                   shape.ldc,
                   shape.accumulate,
                   static_cast<int64_t>(shape.type),
                   static_cast<int64_t>(shape.out_type)};
  std::unique_ptr<kernels::MatmulPlan>& plan = plans_[key];
  if (plan == nullptr) {
    ASSIGN_OR_RETURN(kernels::MatmulPlan made, kernels::MatmulPlan::Create(shape, threads_));
    plan = std::make_unique<kernels::MatmulPlan>(std::move(made));
  }
  return plan.get();
}

absl::StatusOr<kernels::MatmulShape> MatmulShapeOf(const program::Op& op) {
  ASSIGN_OR_RETURN(const ops::MatMul attributes, ops::FromOp<ops::MatMul>(op));
  return ShapeOf(attributes);
}

BoundOp BindMatMul(OpReader& reader) {
  using Op = ops::MatMul;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::MatmulShape shape = ShapeOf(*op);
  void* workspace = reader.Workspace(kernels::MatmulWorkspaceBytes(shape, reader.threads()));
  const absl::StatusOr<const kernels::MatmulPlan*> plan = reader.environment().plans->Get(shape);
  if (!plan.ok()) {
    reader.Fail(plan.status());
    return {};
  }
  return [plan = *plan, context = reader.context(), a = reader.Data(Op::kA),
          b = reader.Data(Op::kB), c = reader.Data(Op::kC), workspace] {
    plan->Run(context, a, b, c, workspace);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
