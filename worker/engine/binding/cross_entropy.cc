#include "kernels/cross_entropy.h"

#include "ops/cross_entropy.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

BoundOp BindCrossEntropy(OpReader& reader) {
  using Op = ops::CrossEntropy;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(kernels::CrossEntropyWorkspaceBytes(op->rows));
  return [context = reader.context(), rows = op->rows, vocab = op->vocab,
          logits = reader.F32(Op::kLogits), targets = reader.I32(Op::kTargets),
          scalars = reader.Scalars(Op::kScalars), loss = reader.F64(Op::kLoss), workspace] {
    const auto scale =
        static_cast<float>(scalars[static_cast<int>(program::Scalar::kInverseTokens)]);
    kernels::CrossEntropyForwardBackward(context, rows, vocab, scale, targets, logits, loss,
                                         workspace);
    return absl::OkStatus();
  };
}

BoundOp BindCrossEntropyLoss(OpReader& reader) {
  using Op = ops::CrossEntropyLoss;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(kernels::CrossEntropyWorkspaceBytes(op->rows));
  return [context = reader.context(), rows = op->rows, vocab = op->vocab,
          logits = reader.F32(Op::kLogits), targets = reader.I32(Op::kTargets),
          loss = reader.F64(Op::kLoss), workspace] {
    kernels::CrossEntropyForward(context, rows, vocab, targets, logits, loss, workspace);
    return absl::OkStatus();
  };
}

BoundOp BindCrossEntropyStatistics(OpReader& reader) {
  using Op = ops::CrossEntropyStatistics;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::VocabularyPart part{op->rows, op->vocab, reader.IndexIn(op->group) * op->vocab};
  return [context = reader.context(), part, targets = reader.I32(Op::kTargets),
          logits = reader.F32(Op::kLogits), statistics = reader.F32(Op::kStatistics)] {
    kernels::CrossEntropyStatistics(context, part, targets, logits, statistics);
    return absl::OkStatus();
  };
}

BoundOp BindCrossEntropyFinish(OpReader& reader) {
  using Op = ops::CrossEntropyFinish;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::VocabularyPart part{op->rows, op->vocab, reader.IndexIn(op->group) * op->vocab};
  return [context = reader.context(), part, parts = op->parts, targets = reader.I32(Op::kTargets),
          statistics = reader.F32(Op::kStatistics), scalars = reader.Scalars(Op::kScalars),
          logits = reader.F32(Op::kLogits), loss = reader.F64(Op::kLoss)] {
    const auto scale =
        static_cast<float>(scalars[static_cast<int>(program::Scalar::kInverseTokens)]);
    kernels::CrossEntropyFinish(context, part, parts, scale, targets, statistics, logits, loss);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
