#include "kernels/embedding.h"

#include "ops/embedding.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::EmbeddingShape ShapeOf(const OpReader& reader, const Op& op) {
  return {op.rows, op.channels, reader.IndexIn(op.group) * op.vocab, op.vocab};
}

}  // namespace

BoundOp BindEmbeddingForward(OpReader& reader) {
  using Op = ops::EmbeddingForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return
      [context = reader.context(), shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
       table = reader.F32(Op::kTable), y = reader.F32(Op::kY)] {
        kernels::EmbeddingForward(context, shape, tokens, table, y);
        return absl::OkStatus();
      };
}

BoundOp BindEmbeddingBackward(OpReader& reader) {
  using Op = ops::EmbeddingBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return
      [context = reader.context(), shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
       dy = reader.F32(Op::kDy), dtable = reader.F32(Op::kDtable)] {
        kernels::EmbeddingBackward(context, shape, tokens, dy, dtable);
        return absl::OkStatus();
      };
}

}  // namespace strata::worker
