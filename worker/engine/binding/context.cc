#include "ops/context.h"

#include <utility>

#include "kernels/elementwise.h"
#include "program/ir/context_rows.h"
#include "worker/engine/binding/attention_shape.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/binding/seen_parts.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

BoundOp BindAttentionPart(OpReader& reader) {
  using Op = ops::AttentionPart;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  void* workspace = reader.Workspace(
      kernels::AttentionPartForwardWorkspaceBytes(ShapeOf(op->part.held), reader.threads()));
  Seen seen = SeenBy(reader, op->part);
  if (op->part.documents) seen.SetPositions(reader.I32(Op::kPositions));
  return WithNumber(op->part.held.type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return
        [context = reader.context(), seen, qkv = reader.As<T>(Op::kQkv), kv = reader.As<T>(Op::kKv),
         out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse), workspace] {
          for (size_t i = 0; i < seen.parts.size(); ++i) {
            kernels::AttentionPartForward(context, seen.parts[i], qkv, kv + seen.kv_at[i],
                                          seen.first && i == 0, out, lse, workspace);
          }
          return absl::OkStatus();
        };
  });
}

BoundOp BindAttentionPartBackward(OpReader& reader) {
  using Op = ops::AttentionPartBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  Seen seen = SeenBy(reader, op->part);
  if (op->part.documents) seen.SetPositions(reader.I32(Op::kPositions));
  return WithNumber(op->part.held.type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    void* workspace = reader.Workspace(
        kernels::AttentionPartBackwardWorkspaceBytes<T>(ShapeOf(op->part.held), reader.threads()));
    return [context = reader.context(), seen, dout = reader.As<T>(Op::kDout),
            qkv = reader.As<T>(Op::kQkv), kv = reader.As<T>(Op::kKv), lse = reader.F32(Op::kLse),
            delta = reader.F32(Op::kDelta), dqkv = reader.As<T>(Op::kDqkv),
            dkv = reader.As<T>(Op::kDkv), workspace] {
      for (size_t i = 0; i < seen.parts.size(); ++i) {
        const int64_t at = seen.kv_at[i];
        kernels::AttentionPartBackward(context, seen.parts[i], dout, qkv, kv + at, lse, delta,
                                       seen.first && i == 0, dqkv, dkv + at, workspace);
      }
      return absl::OkStatus();
    };
  });
}

BoundOp BindAttentionDelta(OpReader& reader) {
  using Op = ops::AttentionDelta;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape{.batch = op->batch,
                                      .sequence = op->sequence,
                                      .heads = op->heads,
                                      .kv_heads = op->heads,
                                      .head_size = op->head_size};
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return [context = reader.context(), shape, dout = reader.As<T>(Op::kDout),
            out = reader.As<T>(Op::kOut), delta = reader.F32(Op::kDelta)] {
      kernels::AttentionDelta(context, shape, dout, out, delta);
      return absl::OkStatus();
    };
  });
}

BoundOp BindMoveBlocks(OpReader& reader) {
  using Op = ops::MoveBlocks;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::BlockMove move{.blocks = op->blocks,
                                .rows = op->rows,
                                .width = op->width,
                                .from_block = op->from_block,
                                .from_row = op->from_row,
                                .to_block = op->to_block,
                                .to_row = op->to_row};
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return [context = reader.context(), move, adds = op->adds, from = reader.As<T>(Op::kFrom),
            to = reader.As<T>(Op::kTo)] {
      kernels::MoveBlocks(context, move, adds, from, to);
      return absl::OkStatus();
    };
  });
}

namespace {

template <typename T>
void OrderRows(const kernels::Context& context, const ops::OrderRows& op, T* ranked, T* ordered) {
  const int64_t sequence = op.rows * op.ranks;
  for (int64_t rank = 0; rank < op.ranks; ++rank) {
    for (const program::ContextRun& run : program::ContextRuns(sequence, op.ranks, rank)) {
      T* const of_rank = ranked + rank * op.stride + run.first * op.width;
      T* const in_order = ordered + run.position * op.width;
      kernels::BlockMove move{.blocks = op.batch,
                              .rows = 1,
                              .width = run.count * op.width,
                              .from_block = op.rows * op.width,
                              .from_row = run.count * op.width,
                              .to_block = sequence * op.width,
                              .to_row = run.count * op.width};
      if (op.inverse) std::swap(move.from_block, move.to_block);
      kernels::MoveBlocks(context, move, false, op.inverse ? in_order : of_rank,
                          op.inverse ? of_rank : in_order);
    }
  }
}

}  // namespace

BoundOp BindOrderRows(OpReader& reader) {
  using Op = ops::OrderRows;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return [context = reader.context(), op = *op, ranked = reader.As<T>(Op::kRanked),
            ordered = reader.As<T>(Op::kOrdered)] {
      OrderRows(context, op, ranked, ordered);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
