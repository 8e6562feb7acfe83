#include "ops/step.h"

#include "kernels/cuda/step.h"
#include "program/ir/scalars.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchFinishStep(OpReader& reader, const Launching& at) {
  using Op = ops::FinishStep;
  using program::Scalar;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const auto read = [&](Scalar scalar) {
    return reader.Scalars(Op::kRead) + static_cast<int>(scalar);
  };
  const auto written = [&](Scalar scalar) {
    return reader.Scalars(Op::kResults) + static_cast<int>(scalar);
  };
  const kernels::cuda::FinishStepShape shape{.rows = op->rows,
                                             .sets = op->sets,
                                             .data = op->data,
                                             .together = op->together,
                                             .norm_ranks = op->norm_ranks,
                                             .clip = op->clip};
  const kernels::cuda::FinishStepScalars scalars{
      .inverse_tokens = read(Scalar::kInverseTokens),
      .loss_scale = op->scaled ? read(Scalar::kLossScale) : nullptr,
      .loss = written(Scalar::kLoss),
      .gradient_norm = written(Scalar::kGradientNorm),
      .clip_factor = written(Scalar::kClipFactor),
      .apply = written(Scalar::kApply),
      .clipped = written(Scalar::kClipped)};
  return [stream = at.stream, shape, scalars, losses = reader.F64(Op::kLosses),
          norms = op->sets > 0 ? reader.F64(Op::kNorms) : nullptr] {
    return kernels::cuda::FinishStep(stream, shape, losses, norms, scalars);
  };
}

}  // namespace strata::worker
