#include "kernels/cuda/cross_entropy.h"

#include "common/status_macros.h"
#include "kernels/cuda/elementwise.h"
#include "ops/cross_entropy.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::cuda::LossShape ShapeOf(const Op& op) {
  return {.rows = op.rows, .vocab = op.vocab, .softcap = static_cast<float>(op.softcap)};
}

template <typename Op>
kernels::cuda::VocabularyPart PartOf(const OpReader& reader, const Op& op) {
  const int64_t first = reader.IndexIn(op.group) * op.vocab;
  return {.rows = op.rows,
          .columns = op.vocab,
          .first = first,
          .softcap = static_cast<float>(op.softcap),
          .padding = ops::PaddingOf(op.vocab, first, op.whole)};
}

// Of the rows' losses, before they are summed.
template <typename Op>
float* LossesOf(OpReader& reader, const Op& op) {
  return static_cast<float*>(reader.Workspace(op.rows * static_cast<int64_t>(sizeof(float))));
}

}  // namespace

BoundOp LaunchCrossEntropy(OpReader& reader, const Launching& at) {
  using Op = ops::CrossEntropy;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  float* const losses = LossesOf(reader, *op);
  const double* const scale =
      reader.Scalars(Op::kScalars) + static_cast<int>(program::Scalar::kInverseTokens);
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), scale, logits = reader.As<T>(Op::kLogits),
            targets = reader.I32(Op::kTargets), losses,
            loss = reader.F64(Op::kLoss)]() -> absl::Status {
      RETURN_IF_ERROR(kernels::cuda::CrossEntropyForwardBackward<T>(stream, shape, scale, targets,
                                                                    logits, losses));
      return kernels::cuda::AddInOrder(stream, shape.rows, losses, loss);
    };
  });
}

BoundOp LaunchCrossEntropyLoss(OpReader& reader, const Launching& at) {
  using Op = ops::CrossEntropyLoss;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  float* const losses = LossesOf(reader, *op);
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(*op), logits = reader.As<T>(Op::kLogits),
            targets = reader.I32(Op::kTargets), losses,
            loss = reader.F64(Op::kLoss)]() -> absl::Status {
      RETURN_IF_ERROR(
          kernels::cuda::CrossEntropyForward<T>(stream, shape, targets, logits, losses));
      return kernels::cuda::AddInOrder(stream, shape.rows, losses, loss);
    };
  });
}

BoundOp LaunchCrossEntropyStatistics(OpReader& reader, const Launching& at) {
  using Op = ops::CrossEntropyStatistics;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, part = PartOf(reader, *op), targets = reader.I32(Op::kTargets),
            logits = reader.As<T>(Op::kLogits), statistics = reader.F32(Op::kStatistics)] {
      return kernels::cuda::CrossEntropyStatistics<T>(stream, part, targets, logits, statistics);
    };
  });
}

BoundOp LaunchCrossEntropyFinish(OpReader& reader, const Launching& at) {
  using Op = ops::CrossEntropyFinish;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const double* const scale =
      reader.Scalars(Op::kScalars) + static_cast<int>(program::Scalar::kInverseTokens);
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, part = PartOf(reader, *op), parts = op->parts, scale,
            targets = reader.I32(Op::kTargets), statistics = reader.F32(Op::kStatistics),
            logits = reader.As<T>(Op::kLogits), loss = reader.F64(Op::kLoss)] {
      return kernels::cuda::CrossEntropyFinish<T>(stream, part, parts, scale, targets, statistics,
                                                  logits, loss);
    };
  });
}

}  // namespace strata::worker
