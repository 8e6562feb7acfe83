#include "kernels/cuda/move_blocks.h"

#include "ops/context.h"
#include "ops/shared_heads.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

kernels::cuda::HeadsShape ShapeOf(const OpReader& reader, const ops::SharedHeads& of) {
  return {.blocks = of.blocks,
          .parts = of.parts,
          .elements = of.elements,
          .part = reader.IndexIn(of.group) / of.share};
}

}  // namespace

BoundOp LaunchMoveBlocks(OpReader& reader, const Launching& at) {
  using Op = ops::MoveBlocks;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::cuda::BlockMove move{.blocks = op->blocks,
                                      .rows = op->rows,
                                      .width = op->width,
                                      .from_block = op->from_block,
                                      .from_row = op->from_row,
                                      .to_block = op->to_block,
                                      .to_row = op->to_row};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, move, adds = op->adds, from = reader.As<T>(Op::kFrom),
            to = reader.As<T>(Op::kTo)] {
      return kernels::cuda::MoveBlocks<T>(stream, move, adds, from, to);
    };
  });
}

BoundOp LaunchOrderRows(OpReader& reader, const Launching& at) {
  using Op = ops::OrderRows;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::cuda::OrderedRowsShape shape{.batch = op->batch,
                                              .ranks = op->ranks,
                                              .rows = op->rows,
                                              .width = op->width,
                                              .stride = op->stride};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, inverse = op->inverse, ranked = reader.As<T>(Op::kRanked),
            ordered = reader.As<T>(Op::kOrdered)] {
      return kernels::cuda::OrderRows<T>(stream, shape, inverse, ranked, ordered);
    };
  });
}

BoundOp LaunchTakeHeads(OpReader& reader, const Launching& at) {
  using Op = ops::TakeHeads;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->of.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(reader, op->of), all = reader.As<T>(Op::kAll),
            own = reader.As<T>(Op::kOwn)] {
      return kernels::cuda::TakeHeads<T>(stream, shape, all, own);
    };
  });
}

BoundOp LaunchAddHeads(OpReader& reader, const Launching& at) {
  using Op = ops::AddHeads;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->of.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(reader, op->of), own = reader.As<T>(Op::kOwn),
            all = reader.As<T>(Op::kAll)] {
      return kernels::cuda::AddHeads<T>(stream, shape, own, all);
    };
  });
}

}  // namespace strata::worker
