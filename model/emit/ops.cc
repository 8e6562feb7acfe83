#include "model/emit/ops.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/check.h"
#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/dequantise.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/matmul.h"
#include "ops/positions.h"
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
    const int64_t bytes = attributes.WorkspaceBytes(builder.backend());
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

// As ops have it: 0 where no part ends in padding.
int64_t WholeOf(const VocabularyShape& shape) {
  return shape.vocab * shape.parts == shape.whole ? 0 : shape.whole;
}

}  // namespace

void MatMul(TemplateBuilder& builder, const MatMulShape& shape, const View& a, const View& b,
            const View& c, bool accumulate) {
  const auto& [m, n, k, trans_a, trans_b, lda, ldc, ldb] = shape;
  Emit(builder,
       ops::MatMul{.m = m,
                   .n = n,
                   .k = k,
                   .trans_a = trans_a,
                   .trans_b = trans_b,
                   .accumulate = accumulate,
                   .lda = lda > 0 ? lda : (trans_a ? m : k),
                   .ldb = ldb > 0 ? ldb : (trans_b ? k : n),
                   .ldc = ldc > 0 ? ldc : n,
                   .type = a.type,
                   .out_type = c.type},
       {a, b, c});
}

void EmbeddingForward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                      const View& table, const View& y) {
  Emit(builder,
       ops::EmbeddingForward{.rows = shape.rows,
                             .vocab = shape.vocab,
                             .channels = shape.channels,
                             .group = shape.group,
                             .type = y.type,
                             .scale = shape.scale,
                             .whole = WholeOf(shape)},
       {tokens, table, y});
}

void EmbeddingBackward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                       const View& dy, const View& dtable) {
  Emit(builder,
       ops::EmbeddingBackward{.rows = shape.rows,
                              .vocab = shape.vocab,
                              .channels = shape.channels,
                              .group = shape.group,
                              .type = dy.type,
                              .scale = shape.scale,
                              .whole = WholeOf(shape)},
       {tokens, dy, dtable});
}

void AddBias(TemplateBuilder& builder, int64_t width, const View& y, const View& b) {
  Emit(builder, ops::AddBias{y.elements() / width, width, y.type}, {y, b});
}

void BiasGradient(TemplateBuilder& builder, int64_t width, const View& dy, const View& db) {
  Emit(builder, ops::BiasGradient{dy.elements() / width, width, dy.type}, {dy, db});
}

void AddPositions(TemplateBuilder& builder, const PositionsShape& shape, const View& y,
                  const View& table, const View& scalars, const View& positions) {
  const ops::AddPositions add{.rows = shape.rows,
                              .sequence = shape.sequence,
                              .channels = shape.channels,
                              .context = shape.context,
                              .use_position = scalars.slot >= 0,
                              .documents = positions.slot >= 0,
                              .type = y.type,
                              .first = shape.first,
                              .group = shape.group,
                              .parts = shape.parts};
  Emit(builder, add, WithLast({y, table}, add.documents ? positions : scalars));
}

void PositionsGradient(TemplateBuilder& builder, const PositionsShape& shape, const View& dy,
                       const View& dtable, const View& positions) {
  Emit(builder,
       ops::PositionsGradient{.rows = shape.rows,
                              .sequence = shape.sequence,
                              .channels = shape.channels,
                              .context = shape.context,
                              .documents = positions.slot >= 0,
                              .type = dy.type,
                              .first = shape.first,
                              .group = shape.group,
                              .parts = shape.parts},
       WithLast({dy, dtable}, positions));
}

void NormForward(TemplateBuilder& builder, const NormShape& shape, const View& x,
                 const NormWeights& weights, const View& y, const View& statistic) {
  const auto& [rows, channels, epsilon, plus_one] = shape;
  if (weights.bias.slot >= 0) {
    return Emit(builder, ops::LayerNormForward{rows, channels, epsilon, x.type},
                {x, weights.weight, weights.bias, y, statistic});
  }
  Emit(builder, ops::RmsNormForward{rows, channels, epsilon, plus_one, x.type},
       {x, weights.weight, y, statistic});
}

void AddNormForward(TemplateBuilder& builder, const NormShape& shape, const View& x,
                    const View& branch, const NormWeights& weights, const View& sum, const View& y,
                    const View& statistic) {
  const auto& [rows, channels, epsilon, plus_one] = shape;
  if (weights.bias.slot >= 0) {
    return Emit(builder, ops::AddLayerNormForward{rows, channels, epsilon, x.type},
                {x, branch, weights.weight, weights.bias, sum, y, statistic});
  }
  Emit(builder, ops::AddRmsNormForward{rows, channels, epsilon, plus_one, x.type},
       {x, branch, weights.weight, sum, y, statistic});
}

void NormReplay(TemplateBuilder& builder, const NormShape& shape, const View& x,
                const NormWeights& weights, const View& statistic, const View& y) {
  const auto& [rows, channels, epsilon, plus_one] = shape;
  if (weights.bias.slot >= 0) {
    return Emit(builder, ops::LayerNormReplay{rows, channels, x.type},
                {x, weights.weight, weights.bias, statistic, y});
  }
  Emit(builder, ops::RmsNormReplay{rows, channels, plus_one, x.type},
       {x, weights.weight, statistic, y});
}

void NormBackward(TemplateBuilder& builder, const NormShape& shape, const View& dy, const View& x,
                  const NormWeights& weights, const View& statistic, const View& dx,
                  bool accumulate_dx, const NormWeights& gradients) {
  const bool frozen = gradients.weight.slot < 0;
  if (weights.bias.slot < 0) {
    return Emit(builder,
                ops::RmsNormBackward{.rows = shape.rows,
                                     .channels = shape.channels,
                                     .accumulate = accumulate_dx,
                                     .plus_one = shape.plus_one,
                                     .frozen = frozen,
                                     .type = dy.type},
                WithLast({dy, x, weights.weight, statistic, dx}, gradients.weight));
  }
  std::vector<View> views = {dy, x, weights.weight, statistic, dx};
  if (!frozen) views.insert(views.end(), {gradients.weight, gradients.bias});
  Emit(builder, ops::LayerNormBackward{shape.rows, shape.channels, accumulate_dx, frozen, dy.type},
       views);
}

void HeadNormForward(TemplateBuilder& builder, const HeadNormShape& shape, double epsilon,
                     const View& qkv, const View& wq, const View& wk, const View& out,
                     const View& rstd) {
  Emit(builder, ops::HeadNormForward{shape, epsilon}, {qkv, wq, wk, out, rstd});
}

void HeadNormReplay(TemplateBuilder& builder, const HeadNormShape& shape, const View& qkv,
                    const View& wq, const View& wk, const View& rstd, const View& out) {
  Emit(builder, ops::HeadNormReplay{shape}, {qkv, wq, wk, rstd, out});
}

void HeadNormBackward(TemplateBuilder& builder, const HeadNormShape& shape, const View& dout,
                      const View& qkv, const View& wq, const View& wk, const View& rstd,
                      const View& dqkv, const View& dwq, const View& dwk) {
  const bool frozen = dwq.slot < 0;
  std::vector<View> views = {dout, qkv, wq, wk, rstd, dqkv};
  if (!frozen) views.insert(views.end(), {dwq, dwk});
  Emit(builder, ops::HeadNormBackward{shape, frozen}, views);
}

void Rope(TemplateBuilder& builder, const AttentionShape& shape, int64_t rotary, const View& qkv,
          const View& table, bool inverse, const View& scalars, const View& positions) {
  const ops::Rope rope{.rows = shape.rows(),
                       .sequence = shape.sequence,
                       .heads = shape.heads,
                       .kv_heads = shape.kv_heads,
                       .head_size = shape.head_size,
                       .inverse = inverse,
                       .use_position = scalars.slot >= 0,
                       .documents = positions.slot >= 0,
                       .rotary = rotary,
                       .type = qkv.type};
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
                            .head_size = shape.head_size,
                            .scores = shape.scores,
                            .type = shape.type},
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
  Emit(builder,
       ops::AttentionDelta{shape.batch, shape.sequence, shape.heads, shape.head_size, shape.type},
       {dout, out, delta});
}

void MoveBlocks(TemplateBuilder& builder, const ops::MoveBlocks& move, const View& from,
                const View& to) {
  ops::MoveBlocks typed = move;
  typed.type = from.type;
  Emit(builder, typed, {from, to});
}

// Positions are moved as what has as many bytes.
void OrderRows(TemplateBuilder& builder, const ops::OrderRows& order, const View& ranked,
               const View& ordered) {
  ops::OrderRows typed = order;
  typed.type = ranked.type == program::DType::kI32 ? program::DType::kF32 : ranked.type;
  Emit(builder, typed, {ranked, ordered});
}

void GatedForward(TemplateBuilder& builder, ops::Function function, int64_t ffn,
                  const View& gate_up, const View& h) {
  Emit(builder, ops::SwigluForward{h.elements() / ffn, ffn, function, h.type}, {gate_up, h});
}

void GatedBackward(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& dh,
                   const View& gate_up, const View& dgate_up) {
  Emit(builder, ops::SwigluBackward{dh.elements() / ffn, ffn, function, dh.type},
       {dh, gate_up, dgate_up});
}

void Activate(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& x,
              const View& h) {
  Emit(builder, ops::Activate{x.elements() / ffn, ffn, function, x.type}, {x, h});
}

void ActivateBackward(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& dh,
                      const View& x, const View& dx) {
  Emit(builder, ops::ActivateBackward{x.elements() / ffn, ffn, function, x.type}, {dh, x, dx});
}

void Softcap(TemplateBuilder& builder, double cap, const View& x) {
  Emit(builder, ops::Softcap{x.elements(), cap, x.type}, {x});
}

void CrossEntropy(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                  const View& targets, const View& scalars, const View& loss) {
  Emit(builder, ops::CrossEntropy{shape.rows, shape.vocab, logits.type, shape.softcap},
       {logits, targets, scalars, loss});
}

void CrossEntropyLoss(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                      const View& targets, const View& loss) {
  Emit(builder, ops::CrossEntropyLoss{shape.rows, shape.vocab, logits.type, shape.softcap},
       {logits, targets, loss});
}

void CrossEntropyStatistics(TemplateBuilder& builder, const VocabularyShape& shape,
                            const View& logits, const View& targets, const View& statistics) {
  Emit(builder,
       ops::CrossEntropyStatistics{shape.rows, shape.vocab, shape.group, logits.type, shape.softcap,
                                   WholeOf(shape)},
       {logits, targets, statistics});
}

void CrossEntropyFinish(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                        const View& targets, const View& statistics, const View& scalars,
                        const View& loss) {
  Emit(builder,
       ops::CrossEntropyFinish{shape.rows, shape.vocab, shape.group, shape.parts, logits.type,
                               shape.softcap, WholeOf(shape)},
       {logits, targets, statistics, scalars, loss});
}

void TakeHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own) {
  SharedHeads typed = of;
  typed.type = all.type;
  Emit(builder, ops::TakeHeads{typed}, {all, own});
}

void AddHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own) {
  SharedHeads typed = of;
  typed.type = all.type;
  Emit(builder, ops::AddHeads{typed}, {all, own});
}

void Add(TemplateBuilder& builder, const View& dst, const View& src) {
  Emit(builder, ops::Add{dst.elements(), dst.type}, {dst, src});
}

void Copy(TemplateBuilder& builder, const View& dst, const View& src) {
  Emit(builder, ops::Copy{dst.bytes}, {dst, src});
}

void Zero(TemplateBuilder& builder, const View& dst) { Emit(builder, ops::Zero{dst.bytes}, {dst}); }

void Scale(TemplateBuilder& builder, double factor, const View& dst) {
  Emit(builder, ops::Scale{dst.elements(), factor, dst.type}, {dst});
}

void Dequantise(TemplateBuilder& builder, const View& units, const View& out) {
  const bool f32_scales = units.type == program::DType::kNf4F32;
  Emit(builder, ops::Dequantise{out.elements(), out.type, f32_scales}, {units, out});
}

void DequantiseRows(TemplateBuilder& builder, const View& codes, const View& scales,
                    const View& out) {
  const int64_t rows = scales.elements();
  Emit(builder, ops::DequantiseRows{rows, codes.elements() / rows, out.type}, {codes, scales, out});
}

void AllGather(TemplateBuilder& builder, program::Group group, const View& in, const View& out) {
  const program::Communication gather{
      .op = program::CollectiveOp::kAllGather, .group = group, .dtype = in.type, .bytes = in.bytes};
  Emit(builder, ops::Collective{gather}, {in, out}, program::Stream::kTensor);
}

void ReduceScatter(TemplateBuilder& builder, program::Group group, const View& in, const View& out,
                   const View& scratch) {
  STRATA_CHECK(scratch.bytes >= in.bytes);
  Op op = ops::ToOp(ops::Collective{{.op = program::CollectiveOp::kReduceScatter,
                                     .group = group,
                                     .dtype = in.type,
                                     .bytes = out.bytes}});
  op.stream = program::Stream::kTensor;
  op.operands = {Read(in.Marked(program::PartialOver(group))), Write(out), Write(scratch)};
  STRATA_CHECK(ops::Check(op).ok());
  builder.Append(std::move(op));
}

void AllToAll(TemplateBuilder& builder, program::Group group, int64_t members, const View& in,
              const View& out) {
  const program::Communication exchange{.op = program::CollectiveOp::kAllToAll,
                                        .group = group,
                                        .dtype = in.type,
                                        .bytes = in.bytes / members};
  Emit(builder, ops::Collective{exchange}, {in, out}, program::Stream::kTensor);
}

void Rotate(TemplateBuilder& builder, program::Group group, const View& in, const View& out) {
  const program::Communication rotate{
      .op = program::CollectiveOp::kRotate, .group = group, .dtype = in.type, .bytes = in.bytes};
  Emit(builder, ops::Collective{rotate}, {in, out}, program::Stream::kTensor);
}

}  // namespace strata::model
