#include "kernels/attention.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/attention.h"
#include "worker/engine/binding/attention_shape.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::Scalar;

template <typename T>
BoundOp BindDecode(OpReader& reader, const kernels::DecodeShape& shape) {
  using Op = ops::AttentionDecode;
  void* workspace =
      reader.Workspace(kernels::DecodeAttentionWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, out_row = shape.heads * shape.head_size,
          qkv = reader.As<T>(Op::kQkv), k_cache = reader.As<T>(Op::kKCache),
          v_cache = reader.As<T>(Op::kVCache), scalars = reader.Scalars(Op::kScalars),
          out = reader.As<T>(Op::kOut), workspace] {
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
    std::fill_n(out + now.rows * out_row, (shape.rows - now.rows) * out_row, T{});
    return absl::OkStatus();
  };
}

}  // namespace

BoundOp BindAttentionForward(OpReader& reader) {
  using Op = ops::AttentionForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape = ShapeOf(op->shape);
  void* workspace =
      reader.Workspace(kernels::AttentionForwardWorkspaceBytes(shape, reader.threads()));
  return WithNumber(op->shape.type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    return [context = reader.context(), shape, qkv = reader.As<T>(Op::kQkv),
            out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse),
            positions = op->documents ? reader.I32(Op::kPositions) : nullptr, workspace] {
      kernels::AttentionForward(context, shape, qkv, positions, out, lse, workspace);
      return absl::OkStatus();
    };
  });
}

BoundOp BindAttentionBackward(OpReader& reader) {
  using Op = ops::AttentionBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape = ShapeOf(op->shape);
  return WithNumber(op->shape.type, [&](auto number) -> BoundOp {
    using T = decltype(number);
    void* workspace =
        reader.Workspace(kernels::AttentionBackwardWorkspaceBytes<T>(shape, reader.threads()));
    return [context = reader.context(), shape, dout = reader.As<T>(Op::kDout),
            qkv = reader.As<T>(Op::kQkv), out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse),
            dqkv = reader.As<T>(Op::kDqkv),
            positions = op->documents ? reader.I32(Op::kPositions) : nullptr, workspace] {
      kernels::AttentionBackward(context, shape, dout, qkv, out, lse, positions, dqkv, workspace);
      return absl::OkStatus();
    };
  });
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
                                   .head_size = op->head_size,
                                   .scores = OptionsOf(op->scores)};
  return WithNumber(op->type,
                    [&](auto number) { return BindDecode<decltype(number)>(reader, shape); });
}

}  // namespace strata::worker
