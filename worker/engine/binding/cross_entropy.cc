#include "kernels/cross_entropy.h"

#include "ops/cross_entropy.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::LossShape LossShapeOf(const Op& op) {
  return {.rows = op.rows, .vocab = op.vocab, .softcap = static_cast<float>(op.softcap)};
}

template <typename Op>
kernels::VocabularyPart PartOf(const OpReader& reader, const Op& op) {
  const int64_t first = reader.IndexIn(op.group) * op.vocab;
  return {.rows = op.rows,
          .columns = op.vocab,
          .first = first,
          .softcap = static_cast<float>(op.softcap),
          .padding = ops::PaddingOf(op.vocab, first, op.whole)};
}

float GradientScale(const double* scalars) {
  return static_cast<float>(scalars[static_cast<int>(program::Scalar::kInverseTokens)]);
}

}  // namespace

BoundOp BindCrossEntropy(OpReader& reader) {
  using Op = ops::CrossEntropy;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(kernels::CrossEntropyWorkspaceBytes(op->rows));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = LossShapeOf(*op),
            logits = reader.As<T>(Op::kLogits), targets = reader.I32(Op::kTargets),
            scalars = reader.Scalars(Op::kScalars), loss = reader.F64(Op::kLoss), workspace] {
      kernels::CrossEntropyForwardBackward(context, shape, GradientScale(scalars), targets, logits,
                                           loss, workspace);
      return absl::OkStatus();
    };
  });
}

BoundOp BindCrossEntropyLoss(OpReader& reader) {
  using Op = ops::CrossEntropyLoss;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(kernels::CrossEntropyWorkspaceBytes(op->rows));
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [context = reader.context(), shape = LossShapeOf(*op), logits = reader.As<T>(Op::kLogits),
         targets = reader.I32(Op::kTargets), loss = reader.F64(Op::kLoss), workspace] {
          kernels::CrossEntropyForward(context, shape, targets, logits, loss, workspace);
          return absl::OkStatus();
        };
  });
}

BoundOp BindCrossEntropyStatistics(OpReader& reader) {
  using Op = ops::CrossEntropyStatistics;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [context = reader.context(), part = PartOf(reader, *op), targets = reader.I32(Op::kTargets),
         logits = reader.As<T>(Op::kLogits), statistics = reader.F32(Op::kStatistics)] {
          kernels::CrossEntropyStatistics(context, part, targets, logits, statistics);
          return absl::OkStatus();
        };
  });
}

BoundOp BindCrossEntropyFinish(OpReader& reader) {
  using Op = ops::CrossEntropyFinish;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), part = PartOf(reader, *op), parts = op->parts,
            targets = reader.I32(Op::kTargets), statistics = reader.F32(Op::kStatistics),
            scalars = reader.Scalars(Op::kScalars), logits = reader.As<T>(Op::kLogits),
            loss = reader.F64(Op::kLoss)] {
      kernels::CrossEntropyFinish(context, part, parts, GradientScale(scalars), targets, statistics,
                                  logits, loss);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
