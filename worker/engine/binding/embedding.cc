#include "kernels/embedding.h"

#include "ops/embedding.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
std::optional<Op> ReadWhole(OpReader& reader) {
  const std::optional<Op> op = reader.Read<Op>();
  if (op && op->group != program::Group::kNone) {
    reader.Fail(absl::UnimplementedError("no kernel for a vocabulary cut over a group"));
    return std::nullopt;
  }
  return op;
}

}  // namespace

BoundOp BindEmbeddingForward(OpReader& reader) {
  using Op = ops::EmbeddingForward;
  const std::optional<Op> op = ReadWhole<Op>(reader);
  if (!op) return {};
  return
      [context = reader.context(), rows = op->rows, channels = op->channels,
       tokens = reader.I32(Op::kTokens), table = reader.F32(Op::kTable), y = reader.F32(Op::kY)] {
        kernels::EmbeddingForward(context, rows, channels, tokens, table, y);
        return absl::OkStatus();
      };
}

BoundOp BindEmbeddingBackward(OpReader& reader) {
  using Op = ops::EmbeddingBackward;
  const std::optional<Op> op = ReadWhole<Op>(reader);
  if (!op) return {};
  return [context = reader.context(), rows = op->rows, channels = op->channels,
          tokens = reader.I32(Op::kTokens), dy = reader.F32(Op::kDy),
          dtable = reader.F32(Op::kDtable)] {
    kernels::EmbeddingBackward(context, rows, channels, tokens, dy, dtable);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
