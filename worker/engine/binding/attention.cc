#include "kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/rope.h"
#include "ops/attention.h"
#include "worker/engine/binding/attention_shape.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::Scalar;

// Positions come from the host and index the table.
absl::Status CheckPositions(const int32_t* positions, int64_t rows, int64_t table_rows) {
  const auto [least, most] = std::minmax_element(positions, positions + rows);
  if (*least >= 0 && *most < table_rows) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("position ", *least < 0 ? *least : *most,
                                            " is outside the table of ", table_rows));
}

}  // namespace

BoundOp BindAttentionForward(OpReader& reader) {
  using Op = ops::AttentionForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape = ShapeOf(op->shape);
  void* workspace =
      reader.Workspace(kernels::AttentionForwardWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, qkv = reader.F32(Op::kQkv), out = reader.F32(Op::kOut),
          lse = reader.F32(Op::kLse),
          positions = op->documents ? reader.I32(Op::kPositions) : nullptr, workspace] {
    kernels::AttentionForward(context, shape, qkv, positions, out, lse, workspace);
    return absl::OkStatus();
  };
}

BoundOp BindAttentionBackward(OpReader& reader) {
  using Op = ops::AttentionBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape = ShapeOf(op->shape);
  void* workspace =
      reader.Workspace(kernels::AttentionBackwardWorkspaceBytes(shape, reader.threads()));
  return
      [context = reader.context(), shape, dout = reader.F32(Op::kDout), qkv = reader.F32(Op::kQkv),
       out = reader.F32(Op::kOut), lse = reader.F32(Op::kLse), dqkv = reader.F32(Op::kDqkv),
       positions = op->documents ? reader.I32(Op::kPositions) : nullptr, workspace] {
        kernels::AttentionBackward(context, shape, dout, qkv, out, lse, positions, dqkv, workspace);
        return absl::OkStatus();
      };
}

BoundOp BindAttentionDecode(OpReader& reader) {
  using Op = ops::AttentionDecode;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  // Templates may be emitted for a chunk that this context never sees; they cannot be loaded.
  if (op->rows > op->context) {
    reader.Fail(absl::InvalidArgumentError("attributes: a chunk is longer than the context"));
    return {};
  }
  const kernels::DecodeShape shape{.batch = 1,
                                   .rows = op->rows,
                                   .context = op->context,
                                   .position = op->context - op->rows,
                                   .heads = op->heads,
                                   .kv_heads = op->kv_heads,
                                   .head_size = op->head_size};
  void* workspace =
      reader.Workspace(kernels::DecodeAttentionWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, out_row = op->heads * op->head_size,
          qkv = reader.F32(Op::kQkv), k_cache = reader.F32(Op::kKCache),
          v_cache = reader.F32(Op::kVCache), scalars = reader.Scalars(Op::kScalars),
          out = reader.F32(Op::kOut), workspace] {
    kernels::DecodeShape now = shape;
    now.position = static_cast<int64_t>(scalars[static_cast<int>(Scalar::kPosition)]);
    now.rows = static_cast<int64_t>(scalars[static_cast<int>(Scalar::kValidTokens)]);
    if (now.position < 0 || now.rows < 0 || now.rows > shape.rows ||
        now.position + now.rows > now.context) {
      return absl::OutOfRangeError(absl::StrCat(now.rows, " tokens at position ", now.position,
                                                " do not fit a chunk of ", shape.rows,
                                                " and a context of ", now.context));
    }
    if (now.rows > 0) {
      kernels::AppendToCache(context, now, qkv, k_cache, v_cache);
      kernels::DecodeAttention(context, now, qkv, k_cache, v_cache, out, workspace);
    }
    // Padding rows go on through the layers, so they must be numbers.
    std::memset(out + now.rows * out_row, 0, (shape.rows - now.rows) * out_row * sizeof(float));
    return absl::OkStatus();
  };
}

BoundOp BindRope(OpReader& reader) {
  using Op = ops::Rope;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::RopeShape shape{.rows = op->rows,
                                 .sequence = op->sequence,
                                 .heads = op->heads,
                                 .kv_heads = op->kv_heads,
                                 .head_size = op->head_size};
  const kernels::Context context = reader.context();
  const bool inverse = op->inverse;
  float* qkv = reader.F32(Op::kQkv);
  const float* table = reader.F32(Op::kTable);
  const int64_t table_rows = reader.operand(Op::kTable).bytes / 4 / shape.head_size;
  if (op->documents) {
    return [context, shape, table, table_rows, positions = reader.I32(Op::kPositions), inverse,
            qkv]() -> absl::Status {
      RETURN_IF_ERROR(CheckPositions(positions, shape.rows, table_rows));
      kernels::RopeApply(context, shape, table, positions, inverse, qkv);
      return absl::OkStatus();
    };
  }
  if (!op->use_position) {
    return [context, shape, table, inverse, qkv] {
      kernels::RopeApply(context, shape, table, nullptr, inverse, qkv);
      return absl::OkStatus();
    };
  }
  return
      [context, shape, table, table_rows, inverse, qkv, position = reader.Scalars(Op::kScalars)] {
        kernels::RopeShape now = shape;
        now.start = static_cast<int64_t>(position[static_cast<int>(Scalar::kPosition)]);
        if (now.start < 0) return absl::OutOfRangeError("a position is negative");
        // A chunk's padding may reach beyond the context; nothing reads it.
        now.rows = now.sequence = std::min(shape.rows, table_rows - now.start);
        if (now.rows > 0) kernels::RopeApply(context, now, table, nullptr, inverse, qkv);
        return absl::OkStatus();
      };
}

}  // namespace strata::worker
