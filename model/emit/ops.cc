#include "model/emit/ops.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/check.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/table.h"

namespace strata::model {
namespace {

using program::Op;
using program::Operand;

Operand Bind(const View& view, program::Access access) {
  Operand operand = Read(view);
  operand.access = access;
  return operand;
}

// Appends the op on these views, one per operand, with the workspace that its kernel needs.
template <typename T>
void Emit(TemplateBuilder& builder, const T& attributes, absl::Span<const View> views,
          program::Stream stream = program::Stream::kCaller) {
  Op op = ops::ToOp(attributes);
  op.stream = stream;
  const ops::OperandSpecs specs = attributes.Operands();
  STRATA_CHECK(views.size() == specs.size());
  for (const View& view : views) {
    op.operands.push_back(Bind(view, specs[op.operands.size()].access));
  }
  if constexpr (ops::HasWorkspace<T>) {
    const int64_t bytes = attributes.WorkspaceBytes({.threads = builder.threads()});
    if (bytes > 0) {
      op.operands.push_back(
          Write(builder.Local("workspace", bytes, program::SlotClass::kWorkspace)));
    }
  }
  STRATA_CHECK(ops::Check(op).ok());
  builder.Append(std::move(op));
}

// What comes last is left out where it is empty.
std::vector<View> WithLast(std::initializer_list<View> views, const View& last) {
  std::vector<View> all(views);
  if (last.slot >= 0) all.push_back(last);
  return all;
}

}  // namespace

void MatMul(TemplateBuilder& builder, const MatMulShape& shape, const View& a, const View& b,
            const View& c, bool accumulate) {
  const auto& [m, n, k, trans_a, trans_b, lda, ldc] = shape;
  Emit(builder,
       ops::MatMul{.m = m,
                   .n = n,
                   .k = k,
                   .trans_a = trans_a,
                   .trans_b = trans_b,
                   .accumulate = accumulate,
                   .lda = lda > 0 ? lda : (trans_a ? m : k),
                   .ldb = trans_b ? k : n,
                   .ldc = ldc > 0 ? ldc : n},
       {a, b, c});
}

void EmbeddingForward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                      const View& table, const View& y) {
  Emit(builder, ops::EmbeddingForward{shape.rows, shape.vocab, shape.channels, shape.group},
       {tokens, table, y});
}

void EmbeddingBackward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                       const View& dy, const View& dtable) {
  Emit(builder, ops::EmbeddingBackward{shape.rows, shape.vocab, shape.channels, shape.group},
       {tokens, dy, dtable});
}

void RmsNormForward(TemplateBuilder& builder, int64_t rows, int64_t channels, double epsilon,
                    const View& x, const View& w, const View& y, const View& rstd) {
  Emit(builder, ops::RmsNormForward{rows, channels, epsilon}, {x, w, y, rstd});
}

void AddRmsNormForward(TemplateBuilder& builder, int64_t rows, int64_t channels, double epsilon,
                       const View& x, const View& branch, const View& w, const View& sum,
                       const View& y, const View& rstd) {
  Emit(builder, ops::AddRmsNormForward{rows, channels, epsilon}, {x, branch, w, sum, y, rstd});
}

void RmsNormReplay(TemplateBuilder& builder, int64_t rows, int64_t channels, const View& x,
                   const View& w, const View& rstd, const View& y) {
  Emit(builder, ops::RmsNormReplay{rows, channels}, {x, w, rstd, y});
}

void RmsNormBackward(TemplateBuilder& builder, int64_t rows, int64_t channels, const View& dy,
                     const View& x, const View& w, const View& rstd, const View& dx,
                     bool accumulate_dx, const View& dw) {
  Emit(builder, ops::RmsNormBackward{rows, channels, accumulate_dx}, {dy, x, w, rstd, dx, dw});
}

void Rope(TemplateBuilder& builder, const AttentionShape& shape, const View& qkv, const View& table,
          bool inverse, const View& scalars, const View& positions) {
  const ops::Rope rope{.rows = shape.rows(),
                       .sequence = shape.sequence,
                       .heads = shape.heads,
                       .kv_heads = shape.kv_heads,
                       .head_size = shape.head_size,
                       .inverse = inverse,
                       .use_position = scalars.slot >= 0,
                       .documents = positions.slot >= 0};
  STRATA_CHECK(!rope.use_position || !rope.documents);
  Emit(builder, rope, WithLast({qkv, table}, rope.documents ? positions : scalars));
}

void AttentionForward(TemplateBuilder& builder, const AttentionShape& shape, const View& qkv,
                      const View& out, const View& lse, const View& positions) {
  Emit(builder, ops::AttentionForward{shape, positions.slot >= 0},
       WithLast({qkv, out, lse}, positions));
}

void AttentionBackward(TemplateBuilder& builder, const AttentionShape& shape, const View& dout,
                       const View& qkv, const View& out, const View& lse, const View& dqkv,
                       const View& positions) {
  Emit(builder, ops::AttentionBackward{shape, positions.slot >= 0},
       WithLast({dout, qkv, out, lse, dqkv}, positions));
}

void AttentionDecode(TemplateBuilder& builder, const AttentionShape& shape, int64_t context,
                     const View& qkv, const View& k_cache, const View& v_cache, const View& scalars,
                     const View& out) {
  STRATA_CHECK(shape.batch == 1);
  Emit(builder,
       ops::AttentionDecode{.rows = shape.sequence,
                            .context = context,
                            .heads = shape.heads,
                            .kv_heads = shape.kv_heads,
                            .head_size = shape.head_size},
       {qkv, k_cache, v_cache, scalars, out});
}

void AttentionPart(TemplateBuilder& builder, const ContextPart& part, const View& qkv,
                   const View& kv, const View& out, const View& lse, const View& positions) {
  ops::AttentionPart op{part};
  op.part.documents = positions.slot >= 0;
  Emit(builder, op, WithLast({qkv, kv, out, lse}, positions));
}

void AttentionPartBackward(TemplateBuilder& builder, const ContextPart& part,
                           std::initializer_list<View> views, const View& positions) {
  ops::AttentionPartBackward op{part};
  op.part.documents = positions.slot >= 0;
  Emit(builder, op, WithLast(views, positions));
}

void AttentionDelta(TemplateBuilder& builder, const AttentionShape& shape, const View& dout,
                    const View& out, const View& delta) {
  Emit(builder, ops::AttentionDelta{shape.batch, shape.sequence, shape.heads, shape.head_size},
       {dout, out, delta});
}

void MoveBlocks(TemplateBuilder& builder, const ops::MoveBlocks& move, const View& from,
                const View& to) {
  Emit(builder, move, {from, to});
}

void OrderRows(TemplateBuilder& builder, const ops::OrderRows& order, const View& ranked,
               const View& ordered) {
  Emit(builder, order, {ranked, ordered});
}

void SwigluForward(TemplateBuilder& builder, int64_t rows, int64_t ffn, const View& gate_up,
                   const View& h) {
  Emit(builder, ops::SwigluForward{rows, ffn}, {gate_up, h});
}

void SwigluBackward(TemplateBuilder& builder, int64_t rows, int64_t ffn, const View& dh,
                    const View& gate_up, const View& dgate_up) {
  Emit(builder, ops::SwigluBackward{rows, ffn}, {dh, gate_up, dgate_up});
}

void CrossEntropy(TemplateBuilder& builder, int64_t rows, int64_t vocab, const View& logits,
                  const View& targets, const View& scalars, const View& loss) {
  Emit(builder, ops::CrossEntropy{rows, vocab}, {logits, targets, scalars, loss});
}

void CrossEntropyLoss(TemplateBuilder& builder, int64_t rows, int64_t vocab, const View& logits,
                      const View& targets, const View& loss) {
  Emit(builder, ops::CrossEntropyLoss{rows, vocab}, {logits, targets, loss});
}

void CrossEntropyStatistics(TemplateBuilder& builder, const VocabularyShape& shape,
                            const View& logits, const View& targets, const View& statistics) {
  Emit(builder, ops::CrossEntropyStatistics{shape.rows, shape.vocab, shape.group},
       {logits, targets, statistics});
}

void CrossEntropyFinish(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                        const View& targets, const View& statistics, const View& scalars,
                        const View& loss) {
  Emit(builder, ops::CrossEntropyFinish{shape.rows, shape.vocab, shape.group, shape.parts},
       {logits, targets, statistics, scalars, loss});
}

void TakeHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own) {
  Emit(builder, ops::TakeHeads{of}, {all, own});
}

void AddHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own) {
  Emit(builder, ops::AddHeads{of}, {all, own});
}

void Add(TemplateBuilder& builder, const View& dst, const View& src) {
  Emit(builder, ops::Add{dst.bytes / 4}, {dst, src});
}

void Copy(TemplateBuilder& builder, const View& dst, const View& src) {
  Emit(builder, ops::Copy{dst.bytes}, {dst, src});
}

void Zero(TemplateBuilder& builder, const View& dst) { Emit(builder, ops::Zero{dst.bytes}, {dst}); }

void AllGather(TemplateBuilder& builder, program::Group group, const View& in, const View& out) {
  const program::Communication gather{
      .op = program::CollectiveOp::kAllGather, .group = group, .bytes = in.bytes};
  Emit(builder, ops::Collective{gather}, {in, out}, program::Stream::kTensor);
}

void ReduceScatter(TemplateBuilder& builder, program::Group group, const View& in, const View& out,
                   const View& scratch) {
  STRATA_CHECK(scratch.bytes >= in.bytes);
  Op op = ops::ToOp(ops::Collective{
      {.op = program::CollectiveOp::kReduceScatter, .group = group, .bytes = out.bytes}});
  op.stream = program::Stream::kTensor;
  op.operands = {Read(in.Marked(program::PartialOver(group))), Write(out), Write(scratch)};
  STRATA_CHECK(ops::Check(op).ok());
  builder.Append(std::move(op));
}

void AllToAll(TemplateBuilder& builder, program::Group group, int64_t members, const View& in,
              const View& out) {
  const program::Communication exchange{
      .op = program::CollectiveOp::kAllToAll, .group = group, .bytes = in.bytes / members};
  Emit(builder, ops::Collective{exchange}, {in, out}, program::Stream::kTensor);
}

void Rotate(TemplateBuilder& builder, program::Group group, const View& in, const View& out) {
  const program::Communication rotate{
      .op = program::CollectiveOp::kRotate, .group = group, .bytes = in.bytes};
  Emit(builder, ops::Collective{rotate}, {in, out}, program::Stream::kTensor);
}

}  // namespace strata::model
