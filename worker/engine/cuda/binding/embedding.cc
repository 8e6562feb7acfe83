#include "kernels/cuda/embedding.h"

#include "ops/embedding.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::cuda::EmbeddingShape ShapeOf(const OpReader& reader, const Op& op) {
  return {.rows = op.rows,
          .channels = op.channels,
          .first = reader.IndexIn(op.group) * op.vocab,
          .count = op.vocab,
          .scale = static_cast<float>(op.scale)};
}

}  // namespace

BoundOp LaunchEmbeddingForward(OpReader& reader, const Launching& at) {
  using Op = ops::EmbeddingForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
            table = reader.As<T>(Op::kTable), y = reader.As<T>(Op::kY)] {
      return kernels::cuda::EmbeddingForward<T>(stream, shape, tokens, table, y);
    };
  });
}

BoundOp LaunchEmbeddingBackward(OpReader& reader, const Launching& at) {
  using Op = ops::EmbeddingBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
            dy = reader.As<T>(Op::kDy), dtable = reader.F32(Op::kDtable)] {
      return kernels::cuda::EmbeddingBackward<T>(stream, shape, tokens, dy, dtable);
    };
  });
}

}  // namespace strata::worker
