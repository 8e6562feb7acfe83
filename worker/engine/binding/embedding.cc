#include "kernels/embedding.h"

#include <algorithm>

#include "common/status_macros.h"
#include "ops/embedding.h"
#include "ops/positions.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/binding/positions.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

template <typename Op>
kernels::EmbeddingShape ShapeOf(const OpReader& reader, const Op& op) {
  return {op.rows, op.channels, reader.IndexIn(op.group) * op.vocab, op.vocab,
          static_cast<float>(op.scale)};
}

template <typename Op>
kernels::PositionsShape PositionsOf(const OpReader& reader, const Op& op) {
  return {.rows = op.rows,
          .sequence = op.sequence,
          .channels = op.channels,
          .first = op.first + reader.IndexIn(op.group) * op.rows};
}

template <typename T>
BoundOp BindAddPositionsOf(const OpReader& reader, const ops::AddPositions& op) {
  using Op = ops::AddPositions;
  const kernels::Context context = reader.context();
  const kernels::PositionsShape shape = PositionsOf(reader, op);
  const T* table = reader.As<T>(Op::kTable);
  T* y = reader.As<T>(Op::kY);
  if (op.documents) {
    const int32_t* positions = reader.I32(Op::kPositions) + reader.IndexIn(op.group) * op.rows;
    return [=, rows_of_table = op.context]() -> absl::Status {
      RETURN_IF_ERROR(CheckPositions(positions, shape.rows, rows_of_table));
      kernels::AddPositions(context, shape, table, positions, y);
      return absl::OkStatus();
    };
  }
  if (!op.use_position) {
    return [=] {
      kernels::AddPositions(context, shape, table, nullptr, y);
      return absl::OkStatus();
    };
  }
  return [=, rows_of_table = op.context, scalars = reader.Scalars(Op::kScalars)] {
    kernels::PositionsShape now = shape;
    now.start = static_cast<int64_t>(scalars[static_cast<int>(program::Scalar::kPosition)]);
    if (now.start < 0) return absl::OutOfRangeError("a position is negative");
    // A chunk's padding may reach beyond the context; nothing reads it.
    now.rows = std::min(shape.rows, rows_of_table - now.start);
    if (now.rows > 0) kernels::AddPositions(context, now, table, nullptr, y);
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindEmbeddingForward(OpReader& reader) {
  using Op = ops::EmbeddingForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [context = reader.context(), shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
         table = reader.As<T>(Op::kTable), y = reader.As<T>(Op::kY)] {
          kernels::EmbeddingForward(context, shape, tokens, table, y);
          return absl::OkStatus();
        };
  });
}

BoundOp BindEmbeddingBackward(OpReader& reader) {
  using Op = ops::EmbeddingBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return
        [context = reader.context(), shape = ShapeOf(reader, *op), tokens = reader.I32(Op::kTokens),
         dy = reader.As<T>(Op::kDy), dtable = reader.F32(Op::kDtable)] {
          kernels::EmbeddingBackward(context, shape, tokens, dy, dtable);
          return absl::OkStatus();
        };
  });
}

BoundOp BindAddPositions(OpReader& reader) {
  const std::optional<ops::AddPositions> op = reader.Read<ops::AddPositions>();
  if (!op) return {};
  return WithNumber(op->type, [&]<typename T>(T) { return BindAddPositionsOf<T>(reader, *op); });
}

BoundOp BindPositionsGradient(OpReader& reader) {
  using Op = ops::PositionsGradient;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int32_t* positions =
      op->documents ? reader.I32(Op::kPositions) + reader.IndexIn(op->group) * op->rows : nullptr;
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [context = reader.context(), shape = PositionsOf(reader, *op), positions,
            table_rows = op->context, dy = reader.As<T>(Op::kDy),
            dtable = reader.F32(Op::kDtable)]() -> absl::Status {
      if (positions != nullptr) RETURN_IF_ERROR(CheckPositions(positions, shape.rows, table_rows));
      kernels::PositionsGradient(context, shape, dy, positions, dtable);
      return absl::OkStatus();
    };
  });
}

}  // namespace strata::worker
