#include "model/emit/ops.h"

#include <utility>
#include <vector>

#include "common/check.h"
#include "model/emit/workspace.h"

namespace strata::model {
namespace {

using program::Op;
using program::Operand;
using program::OpKind;

constexpr int64_t kF32 = 4;
constexpr int64_t kF64 = 8;

Op MakeOp(OpKind kind, std::vector<Operand> operands, std::vector<int64_t> ints,
          std::vector<double> floats = {}) {
  Op op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.ints = std::move(ints);
  op.floats = std::move(floats);
  return op;
}

// Appends the workspace as the last operand, when the kernel needs any.
void AppendWithWorkspace(TemplateBuilder& builder, Op op, int64_t workspace_bytes) {
  if (workspace_bytes > 0) {
    op.operands.push_back(
        Write(builder.Local("workspace", workspace_bytes, program::SlotClass::kWorkspace)));
  }
  builder.Append(std::move(op));
}

void CheckFloats(const View& view, int64_t count) { STRATA_CHECK(view.bytes == count * kF32); }

int64_t Int(program::Group group) { return static_cast<int64_t>(group); }

}  // namespace

void MatMul(TemplateBuilder& builder, const MatMulShape& shape, const View& a, const View& b,
            const View& c, bool accumulate) {
  const auto& [m, n, k, trans_a, trans_b] = shape;
  CheckFloats(a, m * k);
  CheckFloats(b, k * n);
  CheckFloats(c, m * n);
  Op op = MakeOp(OpKind::kMatMul, {Read(a), Read(b), accumulate ? Accumulate(c) : Write(c)},
                 {m, n, k, trans_a, trans_b, accumulate, trans_a ? m : k, trans_b ? k : n, n});
  op.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  AppendWithWorkspace(builder, std::move(op), MatMulWorkspaceBytes(shape, builder.threads()));
}

void EmbeddingForward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                      const View& table, const View& y) {
  CheckFloats(tokens, shape.rows);
  CheckFloats(table, shape.vocab * shape.channels);
  CheckFloats(y, shape.rows * shape.channels);
  builder.Append(MakeOp(OpKind::kEmbeddingForward, {Read(tokens), Read(table), Write(y)},
                        {shape.rows, shape.vocab, shape.channels, Int(shape.group)}));
}

void EmbeddingBackward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                       const View& dy, const View& dtable) {
  CheckFloats(tokens, shape.rows);
  CheckFloats(dy, shape.rows * shape.channels);
  CheckFloats(dtable, shape.vocab * shape.channels);
  builder.Append(MakeOp(OpKind::kEmbeddingBackward, {Read(tokens), Read(dy), Accumulate(dtable)},
                        {shape.rows, shape.vocab, shape.channels, Int(shape.group)}));
}

void RmsNormForward(TemplateBuilder& builder, int64_t rows, int64_t channels, double epsilon,
                    const View& x, const View& w, const View& y, const View& rstd) {
  CheckFloats(x, rows * channels);
  CheckFloats(w, channels);
  CheckFloats(y, rows * channels);
  CheckFloats(rstd, rows);
  builder.Append(MakeOp(OpKind::kRmsNormForward, {Read(x), Read(w), Write(y), Write(rstd)},
                        {rows, channels}, {epsilon}));
}

void AddRmsNormForward(TemplateBuilder& builder, int64_t rows, int64_t channels, double epsilon,
                       const View& x, const View& branch, const View& w, const View& sum,
                       const View& y, const View& rstd) {
  for (const View* view : {&x, &branch, &sum, &y}) CheckFloats(*view, rows * channels);
  CheckFloats(w, channels);
  CheckFloats(rstd, rows);
  builder.Append(MakeOp(OpKind::kAddRmsNormForward,
                        {Read(x), Read(branch), Read(w), Write(sum), Write(y), Write(rstd)},
                        {rows, channels}, {epsilon}));
}

void RmsNormReplay(TemplateBuilder& builder, int64_t rows, int64_t channels, const View& x,
                   const View& w, const View& rstd, const View& y) {
  for (const View* view : {&x, &y}) CheckFloats(*view, rows * channels);
  CheckFloats(w, channels);
  CheckFloats(rstd, rows);
  builder.Append(
      MakeOp(OpKind::kRmsNormReplay, {Read(x), Read(w), Read(rstd), Write(y)}, {rows, channels}));
}

void RmsNormBackward(TemplateBuilder& builder, int64_t rows, int64_t channels, const View& dy,
                     const View& x, const View& w, const View& rstd, const View& dx,
                     bool accumulate_dx, const View& dw) {
  for (const View* view : {&dy, &x, &dx}) CheckFloats(*view, rows * channels);
  for (const View* view : {&w, &dw}) CheckFloats(*view, channels);
  CheckFloats(rstd, rows);
  Op op = MakeOp(OpKind::kRmsNormBackward,
                 {Read(dy), Read(x), Read(w), Read(rstd),
                  accumulate_dx ? Accumulate(dx) : Write(dx), Accumulate(dw)},
                 {rows, channels, accumulate_dx});
  AppendWithWorkspace(builder, std::move(op), RmsNormBackwardWorkspaceBytes(rows, channels));
}

void Rope(TemplateBuilder& builder, const AttentionShape& shape, const View& qkv, const View& table,
          bool inverse, const View& scalars) {
  CheckFloats(qkv, shape.rows() * shape.qkv_width());
  const bool use_position = scalars.slot >= 0;
  std::vector<Operand> operands = {Accumulate(qkv), Read(table)};
  if (use_position) operands.push_back(Read(scalars));
  builder.Append(MakeOp(OpKind::kRope, std::move(operands),
                        {shape.rows(), shape.sequence, shape.heads, shape.kv_heads, shape.head_size,
                         inverse, use_position}));
}

namespace {

double AttentionFlops(const AttentionShape& shape) {
  const double sequence = static_cast<double>(shape.sequence);
  return 2.0 * static_cast<double>(shape.batch * shape.heads * shape.head_size) * sequence *
         sequence;
}

std::vector<int64_t> AttentionInts(const AttentionShape& shape) {
  return {shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size};
}

}  // namespace

void AttentionForward(TemplateBuilder& builder, const AttentionShape& shape, const View& qkv,
                      const View& out, const View& lse) {
  CheckFloats(qkv, shape.rows() * shape.qkv_width());
  CheckFloats(out, shape.rows() * shape.heads * shape.head_size);
  CheckFloats(lse, shape.rows() * shape.heads);
  Op op =
      MakeOp(OpKind::kAttentionForward, {Read(qkv), Write(out), Write(lse)}, AttentionInts(shape));
  op.flops = AttentionFlops(shape);
  AppendWithWorkspace(builder, std::move(op),
                      AttentionForwardWorkspaceBytes(shape, builder.threads()));
}

void AttentionBackward(TemplateBuilder& builder, const AttentionShape& shape, const View& dout,
                       const View& qkv, const View& out, const View& lse, const View& dqkv) {
  CheckFloats(dout, shape.rows() * shape.heads * shape.head_size);
  CheckFloats(qkv, shape.rows() * shape.qkv_width());
  CheckFloats(dqkv, shape.rows() * shape.qkv_width());
  Op op = MakeOp(OpKind::kAttentionBackward,
                 {Read(dout), Read(qkv), Read(out), Read(lse), Write(dqkv)}, AttentionInts(shape));
  op.flops = 2.5 * AttentionFlops(shape);
  AppendWithWorkspace(builder, std::move(op),
                      AttentionBackwardWorkspaceBytes(shape, builder.threads()));
}

void AttentionDecode(TemplateBuilder& builder, const AttentionShape& shape, int64_t context,
                     const View& qkv, const View& k_cache, const View& v_cache, const View& scalars,
                     const View& out) {
  STRATA_CHECK(shape.batch == 1);
  CheckFloats(qkv, shape.rows() * shape.qkv_width());
  CheckFloats(k_cache, context * shape.kv_heads * shape.head_size);
  CheckFloats(v_cache, context * shape.kv_heads * shape.head_size);
  CheckFloats(out, shape.rows() * shape.heads * shape.head_size);
  Op op = MakeOp(OpKind::kAttentionDecode,
                 {Read(qkv), Accumulate(k_cache), Accumulate(v_cache), Read(scalars), Write(out)},
                 {shape.sequence, context, shape.heads, shape.kv_heads, shape.head_size});
  op.flops = 4.0 * static_cast<double>(shape.sequence) * static_cast<double>(context) *
             static_cast<double>(shape.heads * shape.head_size);
  AppendWithWorkspace(builder, std::move(op),
                      AttentionDecodeWorkspaceBytes(shape, builder.threads()));
}

void SwigluForward(TemplateBuilder& builder, int64_t rows, int64_t ffn, const View& gate_up,
                   const View& h) {
  CheckFloats(gate_up, rows * 2 * ffn);
  CheckFloats(h, rows * ffn);
  builder.Append(MakeOp(OpKind::kSwigluForward, {Read(gate_up), Write(h)}, {rows, ffn}));
}

void SwigluBackward(TemplateBuilder& builder, int64_t rows, int64_t ffn, const View& dh,
                    const View& gate_up, const View& dgate_up) {
  CheckFloats(dh, rows * ffn);
  CheckFloats(gate_up, rows * 2 * ffn);
  CheckFloats(dgate_up, rows * 2 * ffn);
  builder.Append(
      MakeOp(OpKind::kSwigluBackward, {Read(dh), Read(gate_up), Write(dgate_up)}, {rows, ffn}));
}

void CrossEntropy(TemplateBuilder& builder, int64_t rows, int64_t vocab, const View& logits,
                  const View& targets, const View& scalars, const View& loss) {
  CheckFloats(logits, rows * vocab);
  CheckFloats(targets, rows);
  STRATA_CHECK(loss.bytes == kF64);
  Op op =
      MakeOp(OpKind::kCrossEntropy,
             {Accumulate(logits), Read(targets), Read(scalars), Accumulate(loss)}, {rows, vocab});
  AppendWithWorkspace(builder, std::move(op), CrossEntropyWorkspaceBytes(rows));
}

void CrossEntropyLoss(TemplateBuilder& builder, int64_t rows, int64_t vocab, const View& logits,
                      const View& targets, const View& loss) {
  CheckFloats(logits, rows * vocab);
  CheckFloats(targets, rows);
  STRATA_CHECK(loss.bytes == kF64);
  Op op = MakeOp(OpKind::kCrossEntropyLoss, {Read(logits), Read(targets), Accumulate(loss)},
                 {rows, vocab});
  AppendWithWorkspace(builder, std::move(op), CrossEntropyWorkspaceBytes(rows));
}

void CrossEntropyStatistics(TemplateBuilder& builder, const VocabularyShape& shape,
                            const View& logits, const View& targets, const View& statistics) {
  CheckFloats(logits, shape.rows * shape.vocab);
  CheckFloats(targets, shape.rows);
  CheckFloats(statistics, shape.rows * 3);
  builder.Append(MakeOp(OpKind::kCrossEntropyStatistics,
                        {Read(logits), Read(targets), Write(statistics)},
                        {shape.rows, shape.vocab, Int(shape.group)}));
}

void CrossEntropyFinish(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                        const View& targets, const View& statistics, const View& scalars,
                        const View& loss) {
  CheckFloats(logits, shape.rows * shape.vocab);
  CheckFloats(targets, shape.rows);
  CheckFloats(statistics, shape.parts * shape.rows * 3);
  STRATA_CHECK(loss.bytes == kF64);
  builder.Append(
      MakeOp(OpKind::kCrossEntropyFinish,
             {Accumulate(logits), Read(targets), Read(statistics), Read(scalars), Accumulate(loss)},
             {shape.rows, shape.vocab, Int(shape.group), shape.parts}));
}

void Add(TemplateBuilder& builder, const View& dst, const View& src) {
  STRATA_CHECK(dst.bytes == src.bytes);
  builder.Append(MakeOp(OpKind::kAdd, {Accumulate(dst), Read(src)}, {dst.bytes / kF32}));
}

void Copy(TemplateBuilder& builder, const View& dst, const View& src) {
  STRATA_CHECK(dst.bytes == src.bytes);
  builder.Append(MakeOp(OpKind::kCopy, {Write(dst), Read(src)}, {dst.bytes}));
}

void Zero(TemplateBuilder& builder, const View& dst) {
  builder.Append(MakeOp(OpKind::kZero, {Write(dst)}, {dst.bytes}));
}

void AllGather(TemplateBuilder& builder, program::Group group, const View& in, const View& out) {
  Op op = MakeOp(OpKind::kCollective, {Read(in), Write(out)}, {});
  op.stream = program::Stream::kTensor;
  op.communication.op = program::CollectiveOp::kAllGather;
  op.communication.group = group;
  op.communication.bytes = in.bytes;
  builder.Append(std::move(op));
}

void ReduceScatter(TemplateBuilder& builder, program::Group group, const View& in, const View& out,
                   const View& scratch) {
  STRATA_CHECK(scratch.bytes >= in.bytes);
  Op op = MakeOp(OpKind::kCollective,
                 {Read(in.Marked(program::PartialOver(group))), Write(out), Write(scratch)}, {});
  op.stream = program::Stream::kTensor;
  op.communication.op = program::CollectiveOp::kReduceScatter;
  op.communication.group = group;
  op.communication.bytes = out.bytes;
  builder.Append(std::move(op));
}

}  // namespace strata::model
