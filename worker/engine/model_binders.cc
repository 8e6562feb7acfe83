// Binders of the ops that templates of a model are made of. Shapes: see program/ir/op.h.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::Scalar;

// Elements that a stored [rows, columns] takes when rows are `distance` apart (0: dense).
int64_t StridedElements(int64_t rows, int64_t columns, int64_t distance) {
  return distance == 0 ? rows * columns : (rows - 1) * distance + columns;
}

// Ops whose vocabulary is cut over a group have no kernel yet.
void ExpectWholeVocabulary(OpReader& reader) {
  if (reader.Int(3) != 0) {
    reader.Fail(absl::UnimplementedError("no kernel for a vocabulary cut over a group"));
  }
}

kernels::AttentionShape AttentionShapeOf(OpReader& reader) {
  const kernels::AttentionShape shape{.batch = reader.Int(0),
                                      .sequence = reader.Int(1),
                                      .heads = reader.Int(2),
                                      .kv_heads = reader.Int(3),
                                      .head_size = reader.Int(4)};
  reader.ExpectThat(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0,
                    "kv_heads does not divide heads");
  return shape;
}

int64_t QkvWidth(const kernels::AttentionShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_size;
}

}  // namespace

BoundOp BindMatMul(OpReader& reader) {
  reader.ExpectForm(3, 4, 9, 0);
  const absl::StatusOr<kernels::MatmulShape> shape = MatmulShapeOf(reader.op());
  if (!shape.ok()) reader.Fail(shape.status());
  if (!reader.status().ok()) return {};
  const auto& [m, n, k, trans_a, trans_b, lda, ldb, ldc, accumulate] = *shape;
  reader.ExpectFloats(0, trans_a ? StridedElements(k, m, lda) : StridedElements(m, k, lda));
  reader.ExpectFloats(1, trans_b ? StridedElements(n, k, ldb) : StridedElements(k, n, ldb));
  reader.ExpectFloats(2, StridedElements(m, n, ldc));
  void* workspace = reader.Workspace(3, kernels::MatmulWorkspaceBytes(*shape, reader.threads()));
  const absl::StatusOr<const kernels::MatmulPlan*> plan = reader.environment().plans->Get(*shape);
  if (!plan.ok()) {
    reader.Fail(plan.status());
    return {};
  }
  return [plan = *plan, context = reader.context(), a = reader.F32(0), b = reader.F32(1),
          c = reader.F32(2), workspace] {
    plan->Run(context, a, b, c, workspace);
    return absl::OkStatus();
  };
}

BoundOp BindEmbeddingForward(OpReader& reader) {
  reader.ExpectForm(3, 3, 3, 0);
  ExpectWholeVocabulary(reader);
  const int64_t rows = reader.Int(0), vocab = reader.Int(1), channels = reader.Int(2);
  reader.ExpectFloats(0, rows);
  reader.ExpectFloats(1, vocab * channels);
  reader.ExpectFloats(2, rows * channels);
  return [context = reader.context(), rows, channels, tokens = reader.I32(0), table = reader.F32(1),
          y = reader.F32(2)] {
    kernels::EmbeddingForward(context, rows, channels, tokens, table, y);
    return absl::OkStatus();
  };
}

BoundOp BindEmbeddingBackward(OpReader& reader) {
  reader.ExpectForm(3, 3, 3, 0);
  ExpectWholeVocabulary(reader);
  const int64_t rows = reader.Int(0), vocab = reader.Int(1), channels = reader.Int(2);
  reader.ExpectFloats(0, rows);
  reader.ExpectFloats(1, rows * channels);
  reader.ExpectFloats(2, vocab * channels);
  return [context = reader.context(), rows, channels, tokens = reader.I32(0), dy = reader.F32(1),
          dtable = reader.F32(2)] {
    kernels::EmbeddingBackward(context, rows, channels, tokens, dy, dtable);
    return absl::OkStatus();
  };
}

BoundOp BindRmsNormForward(OpReader& reader) {
  reader.ExpectForm(4, 4, 2, 1);
  const int64_t rows = reader.Int(0), channels = reader.Int(1);
  reader.ExpectFloats(0, rows * channels);
  reader.ExpectFloats(1, channels);
  reader.ExpectFloats(2, rows * channels);
  reader.ExpectFloats(3, rows);
  return [context = reader.context(), rows, channels, epsilon = static_cast<float>(reader.Float(0)),
          x = reader.F32(0), w = reader.F32(1), y = reader.F32(2), rstd = reader.F32(3)] {
    kernels::RmsNormForward(context, rows, channels, epsilon, x, w, y, rstd);
    return absl::OkStatus();
  };
}

BoundOp BindAddRmsNormForward(OpReader& reader) {
  reader.ExpectForm(6, 6, 2, 1);
  const int64_t rows = reader.Int(0), channels = reader.Int(1);
  for (const int full : {0, 1, 3, 4}) reader.ExpectFloats(full, rows * channels);
  reader.ExpectFloats(2, channels);
  reader.ExpectFloats(5, rows);
  return [context = reader.context(), rows, channels, epsilon = static_cast<float>(reader.Float(0)),
          x = reader.F32(0), branch = reader.F32(1), w = reader.F32(2), sum = reader.F32(3),
          y = reader.F32(4), rstd = reader.F32(5)] {
    kernels::AddRmsNormForward(context, rows, channels, epsilon, x, branch, w, sum, y, rstd);
    return absl::OkStatus();
  };
}

BoundOp BindRmsNormReplay(OpReader& reader) {
  reader.ExpectForm(4, 4, 2, 0);
  const int64_t rows = reader.Int(0), channels = reader.Int(1);
  for (const int full : {0, 3}) reader.ExpectFloats(full, rows * channels);
  reader.ExpectFloats(1, channels);
  reader.ExpectFloats(2, rows);
  return [context = reader.context(), rows, channels, x = reader.F32(0), w = reader.F32(1),
          rstd = reader.F32(2), y = reader.F32(3)] {
    kernels::RmsNormReplay(context, rows, channels, x, w, rstd, y);
    return absl::OkStatus();
  };
}

BoundOp BindRmsNormBackward(OpReader& reader) {
  reader.ExpectForm(6, 7, 3, 0);
  const int64_t rows = reader.Int(0), channels = reader.Int(1);
  for (const int full : {0, 1, 4}) reader.ExpectFloats(full, rows * channels);
  for (const int row : {2, 5}) reader.ExpectFloats(row, channels);
  reader.ExpectFloats(3, rows);
  void* workspace = reader.Workspace(6, kernels::RmsNormBackwardWorkspaceBytes(rows, channels));
  return [context = reader.context(), rows, channels, accumulate = reader.Int(2) != 0,
          dy = reader.F32(0), x = reader.F32(1), w = reader.F32(2), rstd = reader.F32(3),
          dx = reader.F32(4), dw = reader.F32(5), workspace] {
    kernels::RmsNormBackward(context, rows, channels, dy, x, w, rstd, accumulate, dx, dw,
                             workspace);
    return absl::OkStatus();
  };
}

BoundOp BindRope(OpReader& reader) {
  reader.ExpectForm(2, 3, 7, 0);
  const kernels::RopeShape shape{.rows = reader.Int(0),
                                 .sequence = reader.Int(1),
                                 .heads = reader.Int(2),
                                 .kv_heads = reader.Int(3),
                                 .head_size = reader.Int(4)};
  const bool inverse = reader.Int(5) != 0, use_position = reader.Int(6) != 0;
  reader.ExpectThat(shape.sequence > 0 && shape.head_size > 0 && shape.head_size % 2 == 0,
                    "the sequence is empty or the head size odd");
  if (!reader.status().ok()) return {};
  reader.ExpectFloats(0, shape.rows * (shape.heads + 2 * shape.kv_heads) * shape.head_size);
  const kernels::Context context = reader.context();
  float* qkv = reader.F32(0);
  const float* table = reader.F32(1);
  if (!use_position) {
    reader.ExpectFloats(1, std::min(shape.rows, shape.sequence) * shape.head_size);
    return [context, shape, table, inverse, qkv] {
      kernels::RopeApply(context, shape, table, inverse, qkv);
      return absl::OkStatus();
    };
  }
  reader.ExpectForm(3, 3, 7, 0);
  reader.ExpectThat(shape.rows == shape.sequence, "rows at a position are of one sequence");
  const double* position = reader.Scalars(2, Scalar::kPosition, Scalar::kPosition);
  const int64_t table_rows = reader.operand(1).bytes / 4 / shape.head_size;
  return [context, shape, table, table_rows, inverse, qkv, position] {
    kernels::RopeShape now = shape;
    now.start = static_cast<int64_t>(position[static_cast<int>(Scalar::kPosition)]);
    if (now.start < 0) return absl::OutOfRangeError("a position is negative");
    // A chunk's padding may reach beyond the context; nothing reads it.
    now.rows = now.sequence = std::min(shape.rows, table_rows - now.start);
    if (now.rows > 0) kernels::RopeApply(context, now, table, inverse, qkv);
    return absl::OkStatus();
  };
}

BoundOp BindAttentionForward(OpReader& reader) {
  reader.ExpectForm(3, 4, 5, 0);
  const kernels::AttentionShape shape = AttentionShapeOf(reader);
  if (!reader.status().ok()) return {};
  const int64_t rows = shape.batch * shape.sequence;
  reader.ExpectFloats(0, rows * QkvWidth(shape));
  reader.ExpectFloats(1, rows * shape.heads * shape.head_size);
  reader.ExpectFloats(2, rows * shape.heads);
  void* workspace =
      reader.Workspace(3, kernels::AttentionForwardWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, qkv = reader.F32(0), out = reader.F32(1),
          lse = reader.F32(2), workspace] {
    kernels::AttentionForward(context, shape, qkv, out, lse, workspace);
    return absl::OkStatus();
  };
}

BoundOp BindAttentionBackward(OpReader& reader) {
  reader.ExpectForm(5, 6, 5, 0);
  const kernels::AttentionShape shape = AttentionShapeOf(reader);
  if (!reader.status().ok()) return {};
  const int64_t rows = shape.batch * shape.sequence;
  for (const int heads : {0, 2}) reader.ExpectFloats(heads, rows * shape.heads * shape.head_size);
  for (const int qkv : {1, 4}) reader.ExpectFloats(qkv, rows * QkvWidth(shape));
  reader.ExpectFloats(3, rows * shape.heads);
  void* workspace =
      reader.Workspace(5, kernels::AttentionBackwardWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, dout = reader.F32(0), qkv = reader.F32(1),
          out = reader.F32(2), lse = reader.F32(3), dqkv = reader.F32(4), workspace] {
    kernels::AttentionBackward(context, shape, dout, qkv, out, lse, dqkv, workspace);
    return absl::OkStatus();
  };
}

BoundOp BindAttentionDecode(OpReader& reader) {
  reader.ExpectForm(5, 6, 5, 0);
  const kernels::DecodeShape shape{.batch = 1,
                                   .rows = reader.Int(0),
                                   .context = reader.Int(1),
                                   .position = reader.Int(1) - reader.Int(0),
                                   .heads = reader.Int(2),
                                   .kv_heads = reader.Int(3),
                                   .head_size = reader.Int(4)};
  reader.ExpectThat(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0,
                    "kv_heads does not divide heads");
  reader.ExpectThat(shape.rows <= shape.context, "a chunk is longer than the context");
  if (!reader.status().ok()) return {};
  reader.ExpectFloats(0, shape.rows * (shape.heads + 2 * shape.kv_heads) * shape.head_size);
  for (const int cache : {1, 2}) {
    reader.ExpectFloats(cache, shape.context * shape.kv_heads * shape.head_size);
  }
  const double* scalars = reader.Scalars(3, Scalar::kPosition, Scalar::kValidTokens);
  const int64_t out_row = shape.heads * shape.head_size;
  reader.ExpectFloats(4, shape.rows * out_row);
  void* workspace =
      reader.Workspace(5, kernels::DecodeAttentionWorkspaceBytes(shape, reader.threads()));
  return [context = reader.context(), shape, out_row, qkv = reader.F32(0), k_cache = reader.F32(1),
          v_cache = reader.F32(2), scalars, out = reader.F32(4), workspace] {
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

BoundOp BindSwigluForward(OpReader& reader) {
  reader.ExpectForm(2, 2, 2, 0);
  const int64_t rows = reader.Int(0), ffn = reader.Int(1);
  reader.ExpectFloats(0, rows * 2 * ffn);
  reader.ExpectFloats(1, rows * ffn);
  return [context = reader.context(), rows, ffn, gate_up = reader.F32(0), h = reader.F32(1)] {
    kernels::SwiGluForward(context, rows, ffn, gate_up, h);
    return absl::OkStatus();
  };
}

BoundOp BindSwigluBackward(OpReader& reader) {
  reader.ExpectForm(3, 3, 2, 0);
  const int64_t rows = reader.Int(0), ffn = reader.Int(1);
  reader.ExpectFloats(0, rows * ffn);
  for (const int both : {1, 2}) reader.ExpectFloats(both, rows * 2 * ffn);
  return [context = reader.context(), rows, ffn, dh = reader.F32(0), gate_up = reader.F32(1),
          dgate_up = reader.F32(2)] {
    kernels::SwiGluBackward(context, rows, ffn, dh, gate_up, dgate_up);
    return absl::OkStatus();
  };
}

BoundOp BindCrossEntropy(OpReader& reader) {
  reader.ExpectForm(4, 5, 2, 0);
  const int64_t rows = reader.Int(0), vocab = reader.Int(1);
  reader.ExpectFloats(0, rows * vocab);
  reader.ExpectFloats(1, rows);
  const double* scalars = reader.Scalars(2, Scalar::kInverseTokens, Scalar::kInverseTokens);
  reader.ExpectRoom(3, 1, sizeof(double));
  void* workspace = reader.Workspace(4, kernels::CrossEntropyWorkspaceBytes(rows));
  return [context = reader.context(), rows, vocab, logits = reader.F32(0), targets = reader.I32(1),
          scalars, loss = reader.F64(3), workspace] {
    const auto scale = static_cast<float>(scalars[static_cast<int>(Scalar::kInverseTokens)]);
    kernels::CrossEntropyForwardBackward(context, rows, vocab, scale, targets, logits, loss,
                                         workspace);
    return absl::OkStatus();
  };
}

BoundOp BindCrossEntropyLoss(OpReader& reader) {
  reader.ExpectForm(3, 4, 2, 0);
  const int64_t rows = reader.Int(0), vocab = reader.Int(1);
  reader.ExpectFloats(0, rows * vocab);
  reader.ExpectFloats(1, rows);
  reader.ExpectRoom(2, 1, sizeof(double));
  void* workspace = reader.Workspace(3, kernels::CrossEntropyWorkspaceBytes(rows));
  return [context = reader.context(), rows, vocab, logits = reader.F32(0), targets = reader.I32(1),
          loss = reader.F64(2), workspace] {
    kernels::CrossEntropyForward(context, rows, vocab, targets, logits, loss, workspace);
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
