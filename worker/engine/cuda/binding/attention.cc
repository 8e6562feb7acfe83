#include "kernels/cuda/attention.h"

#include "common/status_macros.h"
#include "kernels/cuda/attention_library.h"
#include "ops/attention.h"
#include "ops/context.h"
#include "worker/engine/binding/attention_shape.h"
#include "worker/engine/binding/seen_parts.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {

BoundOp LaunchAttentionForward(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionForward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const int32_t* const positions = op->documents ? reader.I32(Op::kPositions) : nullptr;
  if (at.attention != nullptr && !op->documents) {
    const auto plan =
        at.attention->Forward(at.stream, ShapeOf(op->shape), NumberTypeOf(op->shape.type));
    if (plan.ok()) {
      return [plan = *plan, qkv = reader.Data(Op::kQkv), out = reader.Data(Op::kOut),
              lse = reader.F32(Op::kLse)] { return plan->Run(qkv, out, lse); };
    }
  }
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape = ShapeOf(op->shape), qkv = reader.As<T>(Op::kQkv), positions,
            out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse)] {
      return kernels::cuda::AttentionForward<T>(stream, shape, qkv, positions, out, lse);
    };
  });
}

BoundOp LaunchAttentionBackward(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape = ShapeOf(op->shape);
  const int32_t* const positions = op->documents ? reader.I32(Op::kPositions) : nullptr;
  void* const workspace = reader.Workspace(kernels::cuda::AttentionBackwardWorkspaceBytes(shape));
  if (at.attention != nullptr && !op->documents) {
    const auto plan = at.attention->Backward(at.stream, shape, NumberTypeOf(op->shape.type));
    if (plan.ok()) {
      return [plan = *plan, dout = reader.Data(Op::kDout), qkv = reader.Data(Op::kQkv),
              out = reader.Data(Op::kOut), lse = reader.F32(Op::kLse),
              dqkv = reader.Data(Op::kDqkv)] { return plan->Run(dout, qkv, out, lse, dqkv); };
    }
  }
  return WithNumber(op->shape.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, dout = reader.As<T>(Op::kDout), qkv = reader.As<T>(Op::kQkv),
            out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse), positions,
            dqkv = reader.As<T>(Op::kDqkv), workspace] {
      return kernels::cuda::AttentionBackward<T>(stream, shape, dout, qkv, out, lse, positions,
                                                 dqkv, workspace);
    };
  });
}

BoundOp LaunchAttentionDecode(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionDecode;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::DecodeShape shape{.batch = 1,
                                   .rows = op->rows,
                                   .context = op->context,
                                   .heads = op->heads,
                                   .kv_heads = op->kv_heads,
                                   .head_size = op->head_size,
                                   .scores = OptionsOf(op->scores)};
  const double* const scalars = reader.Scalars(Op::kScalars);
  const kernels::cuda::DecodeScalars scalars_of{
      .position = scalars + static_cast<int>(program::Scalar::kPosition),
      .rows = scalars + static_cast<int>(program::Scalar::kValidTokens)};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, scalars = scalars_of, qkv = reader.As<T>(Op::kQkv),
            k_cache = reader.As<T>(Op::kKCache), v_cache = reader.As<T>(Op::kVCache),
            out = reader.As<T>(Op::kOut)]() -> absl::Status {
      RETURN_IF_ERROR(
          kernels::cuda::AppendToCache<T>(stream, shape, scalars, qkv, k_cache, v_cache, out));
      return kernels::cuda::DecodeAttention<T>(stream, shape, scalars, qkv, k_cache, v_cache, out);
    };
  });
}

BoundOp LaunchAttentionDelta(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionDelta;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const kernels::AttentionShape shape{.batch = op->batch,
                                      .sequence = op->sequence,
                                      .heads = op->heads,
                                      .kv_heads = op->heads,
                                      .head_size = op->head_size};
  return WithNumber(op->type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, shape, dout = reader.As<T>(Op::kDout), out = reader.As<T>(Op::kOut),
            delta = reader.F32(Op::kDelta)] {
      return kernels::cuda::AttentionDelta<T>(stream, shape, dout, out, delta);
    };
  });
}

BoundOp LaunchAttentionPart(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionPart;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  Seen seen = SeenBy(reader, op->part);
  if (op->part.documents) seen.SetPositions(reader.I32(Op::kPositions));
  return WithNumber(op->part.held.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, seen, qkv = reader.As<T>(Op::kQkv), kv = reader.As<T>(Op::kKv),
            out = reader.As<T>(Op::kOut), lse = reader.F32(Op::kLse)] {
      absl::Status status;
      for (size_t i = 0; i < seen.parts.size() && status.ok(); ++i) {
        status = kernels::cuda::AttentionPartForward<T>(
            stream, seen.parts[i], qkv, kv + seen.kv_at[i], seen.first && i == 0, out, lse);
      }
      return status;
    };
  });
}

BoundOp LaunchAttentionPartBackward(OpReader& reader, const Launching& at) {
  using Op = ops::AttentionPartBackward;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  Seen seen = SeenBy(reader, op->part);
  if (op->part.documents) seen.SetPositions(reader.I32(Op::kPositions));
  return WithNumber(op->part.held.type, [&]<typename T>(T) -> BoundOp {
    return [stream = at.stream, seen, dout = reader.As<T>(Op::kDout), qkv = reader.As<T>(Op::kQkv),
            kv = reader.As<T>(Op::kKv), lse = reader.F32(Op::kLse), delta = reader.F32(Op::kDelta),
            dqkv = reader.As<T>(Op::kDqkv), dkv = reader.As<T>(Op::kDkv)] {
      absl::Status status;
      for (size_t i = 0; i < seen.parts.size() && status.ok(); ++i) {
        const int64_t kv_at = seen.kv_at[i];
        status = kernels::cuda::AttentionPartBackward<T>(stream, seen.parts[i], dout, qkv,
                                                         kv + kv_at, lse, delta,
                                                         seen.first && i == 0, dqkv, dkv + kv_at);
      }
      return status;
    };
  });
}

}  // namespace strata::worker
