// One function per kind of op: appends it to a template with its operands, attributes, workspace
// and FLOPs, as ops/<op>.h says. Views must have the sizes that shapes say.
//
// Legend: B batch, T sequence, N = B·T rows, C hidden, H query heads, K kv heads, D head size,
// F ffn, V vocab.
#ifndef STRATA_MODEL_EMIT_OPS_H_
#define STRATA_MODEL_EMIT_OPS_H_

#include <cstdint>
#include <initializer_list>

#include "model/emit/template_builder.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/collective.h"
#include "ops/context.h"
#include "ops/headnorm.h"
#include "ops/shared_heads.h"
#include "program/ir/op.h"

namespace strata::model {

struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false;  // a is stored [k, m]
  bool trans_b = false;  // b is stored [n, k]
  // Distance between stored rows, in elements; 0: dense.
  int64_t lda = 0, ldc = 0, ldb = 0;
};

using ops::AttentionShape;
using ops::ContextPart;
using ops::HeadNormShape;
using ops::ReduceScatterScratchBytes;
using ops::SharedHeads;

// Of the vocabulary's rows: all of them, or those of this rank's part.
struct VocabularyShape {
  int64_t rows = 0;      // N
  int64_t vocab = 0;     // V, of the part
  int64_t whole = 0;     // of all parts, without the padding that the last ones may end in
  int64_t channels = 0;  // C; embedding only
  program::Group group = program::Group::kNone;
  int64_t parts = 1;
  double scale = 1;    // of an embedding's rows
  double softcap = 0;  // of a loss's logits; 0: none
};

// Which norm: root mean square, or with a bias (not slot -1) layer norm.
struct NormShape {
  int64_t rows = 0, channels = 0;
  double epsilon = 0;
  bool plus_one = false;  // of root mean square: the weight is 1 + w
};
struct NormWeights {
  View weight, bias;
};

// Where rows that are added to, or added up, stand: ops/positions.h.
struct PositionsShape {
  int64_t rows = 0, sequence = 0, channels = 0, context = 0;
  int64_t first = 0;  // of these rows in the pass
  program::Group group = program::Group::kNone;
  int64_t parts = 1;
};

void MatMul(TemplateBuilder& builder, const MatMulShape& shape, const View& a, const View& b,
            const View& c, bool accumulate);
void EmbeddingForward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                      const View& table, const View& y);
void EmbeddingBackward(TemplateBuilder& builder, const VocabularyShape& shape, const View& tokens,
                       const View& dy, const View& dtable);
// y += b in every row of `width`.
void AddBias(TemplateBuilder& builder, int64_t width, const View& y, const View& b);
void BiasGradient(TemplateBuilder& builder, int64_t width, const View& dy, const View& db);
// With empty scalars and positions row n stands at n mod T.
void AddPositions(TemplateBuilder& builder, const PositionsShape& shape, const View& y,
                  const View& table, const View& scalars, const View& positions);
void PositionsGradient(TemplateBuilder& builder, const PositionsShape& shape, const View& dy,
                       const View& dtable, const View& positions);
void NormForward(TemplateBuilder& builder, const NormShape& shape, const View& x,
                 const NormWeights& weights, const View& y, const View& statistic);
void AddNormForward(TemplateBuilder& builder, const NormShape& shape, const View& x,
                    const View& branch, const NormWeights& weights, const View& sum, const View& y,
                    const View& statistic);
// y of the forward again, from the statistic that it made.
void NormReplay(TemplateBuilder& builder, const NormShape& shape, const View& x,
                const NormWeights& weights, const View& statistic, const View& y);
// Without gradients (slot -1) of weights that are frozen.
void NormBackward(TemplateBuilder& builder, const NormShape& shape, const View& dy, const View& x,
                  const NormWeights& weights, const View& statistic, const View& dx,
                  bool accumulate_dx, const NormWeights& gradients);
void HeadNormForward(TemplateBuilder& builder, const HeadNormShape& shape, double epsilon,
                     const View& qkv, const View& wq, const View& wk, const View& out,
                     const View& rstd);
void HeadNormReplay(TemplateBuilder& builder, const HeadNormShape& shape, const View& qkv,
                    const View& wq, const View& wk, const View& rstd, const View& out);
// `dwq` and `dwk` are empty where the weights are frozen.
void HeadNormBackward(TemplateBuilder& builder, const HeadNormShape& shape, const View& dout,
                      const View& qkv, const View& wq, const View& wk, const View& rstd,
                      const View& dqkv, const View& dwq, const View& dwk);
// `scalars` is empty (slot -1) unless rows start at kPosition; `positions`, here and below, unless
// rows are of documents. `rotary` elements of a head turn, 0: all.
void Rope(TemplateBuilder& builder, const AttentionShape& shape, int64_t rotary, const View& qkv,
          const View& table, bool inverse, const View& scalars, const View& positions);
void AttentionForward(TemplateBuilder& builder, const AttentionShape& shape, const View& qkv,
                      const View& out, const View& lse, const View& positions);
void AttentionBackward(TemplateBuilder& builder, const AttentionShape& shape, const View& dout,
                       const View& qkv, const View& out, const View& lse, const View& dqkv,
                       const View& positions);
void AttentionDecode(TemplateBuilder& builder, const AttentionShape& shape, int64_t context,
                     const View& qkv, const View& k_cache, const View& v_cache, const View& scalars,
                     const View& out);
void AttentionPart(TemplateBuilder& builder, const ContextPart& part, const View& qkv,
                   const View& kv, const View& out, const View& lse, const View& positions);
// `views` in the op's order, without the positions.
void AttentionPartBackward(TemplateBuilder& builder, const ContextPart& part,
                           std::initializer_list<View> views, const View& positions);
void AttentionDelta(TemplateBuilder& builder, const AttentionShape& shape, const View& dout,
                    const View& out, const View& delta);
void MoveBlocks(TemplateBuilder& builder, const ops::MoveBlocks& move, const View& from,
                const View& to);
void OrderRows(TemplateBuilder& builder, const ops::OrderRows& order, const View& ranked,
               const View& ordered);
// f(gate) · up of packed gate, up.
void GatedForward(TemplateBuilder& builder, ops::Function function, int64_t ffn,
                  const View& gate_up, const View& h);
void GatedBackward(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& dh,
                   const View& gate_up, const View& dgate_up);
void Activate(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& x,
              const View& h);
void ActivateBackward(TemplateBuilder& builder, ops::Function function, int64_t ffn, const View& dh,
                      const View& x, const View& dx);
void Softcap(TemplateBuilder& builder, double cap, const View& x);
// The logits become their gradient.
void CrossEntropy(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                  const View& targets, const View& scalars, const View& loss);
void CrossEntropyLoss(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                      const View& targets, const View& loss);
void CrossEntropyStatistics(TemplateBuilder& builder, const VocabularyShape& shape,
                            const View& logits, const View& targets, const View& statistics);
void CrossEntropyFinish(TemplateBuilder& builder, const VocabularyShape& shape, const View& logits,
                        const View& targets, const View& statistics, const View& scalars,
                        const View& loss);
void TakeHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own);
void AddHeads(TemplateBuilder& builder, const SharedHeads& of, const View& all, const View& own);
void Add(TemplateBuilder& builder, const View& dst, const View& src);
void Copy(TemplateBuilder& builder, const View& dst, const View& src);
void Zero(TemplateBuilder& builder, const View& dst);
void Scale(TemplateBuilder& builder, double factor, const View& dst);
// `units`: of a type of NF4.
void Dequantise(TemplateBuilder& builder, const View& units, const View& out);
void DequantiseRows(TemplateBuilder& builder, const View& codes, const View& scales,
                    const View& out);

// On Stream::kTensor. All-gather: in is this member's part, out all parts. Reduce-scatter: in
// is a partial sum of all parts, out this member's part; `scratch` of ReduceScatterScratchBytes.
// All-to-all: both are `members` parts. Rotate: `in` goes to the next member.
void AllGather(TemplateBuilder& builder, program::Group group, const View& in, const View& out);
void ReduceScatter(TemplateBuilder& builder, program::Group group, const View& in, const View& out,
                   const View& scratch);
void AllToAll(TemplateBuilder& builder, program::Group group, int64_t members, const View& in,
              const View& out);
void Rotate(TemplateBuilder& builder, program::Group group, const View& in, const View& out);

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_OPS_H_
