// Llama-style decoders as layers of templates: RMSNorm, rotary positions, grouped-query attention,
// SwiGLU (Touvron et al., "LLaMA", 2023; Ainslie et al., "GQA", 2023). Every weight is [out, in] as
// in Hugging Face's files and y = x · Wᵀ.
//
// Layers and what they use (Layer::sets, in this order):
//   "embedding"     {table}             model.embed_tokens.weight [V, C]
//   "layers.I"      {matrices, norms}   qkv_proj (parts q, k, v), o_proj, gate_up_proj (parts gate,
//                                       up), down_proj; input_layernorm, post_attention_layernorm.
//                                       Norms are a set of their own because they are whole on
//                                       every rank of a tensor group, and small enough to stay
//                                       resident where matrices are gathered or fetched
//   "head"          {final norm, table} model.norm.weight; the table is the embedding's set (tied)
//                                       or lm_head.weight
//
// Formals by layer and template (roles; indices where there are several):
//   embedding  forward, evaluate, prefill, decode: kTokens, kParameters, kOutput
//              backward: kTokens, kGradientStream (read), kGradients
//              backward_weight: the same with kOutputGradient
//   block      forward: kInput, kParameters, kConstants 0, kSaved 0…6, kOutput
//              backward: kInput, kParameters, kConstants, kSaved, kGradientStream, kGradients
//              backward_input: kInput, kParameters, kConstants, kSaved, kOutputGradient,
//                kInputGradient, kStash 0…2, kGradients (norm weights only)
//              backward_weight: kInput, kParameters, kSaved, kOutputGradient (the same bytes as in
//                backward_input, still needed), kStash, kGradients (matrices only)
//              evaluate: kInput, kParameters, kConstants, kOutput
//              prefill, decode: as evaluate with kScalars and kCache
//   head       backward: kInput, kTargets, kScalars, kParameters, kLoss, kGradientStream (written),
//                kGradients
//              evaluate: kInput, kTargets, kParameters, kLoss (and kScalars, tensor_degree > 1)
//              prefill, decode: kInput, kParameters, kLogits (all rows)
// The order of formals is that of first use; bind by role and index.
//
// Saved by a block's forward, per row, beside its input which must be kept too:
//   0 qkv after rotation [(H+2K)·D], 1 attention output [H·D], 2 log-sum-exp [H],
//   3 the residual stream between attention and feed-forward [C], 4 gate_up [2F],
//   5 and 6 the norms' rstd [1].
// Computed again in backward: both normed inputs and the SwiGLU output. Saving
// them would take 2C + F more floats per row held from forward to backward (about a third more at
// F = 8C/3); computing them again moves 4C + 3F floats per row through memory, about 1 % of a
// block's time at C = 768 where its products take 6 · 7 MFLOP per row.
//
// The residual sum after the feed-forward layer is a product written to the output and an addition
// of the residual: as many bytes as a copy and an accumulating product, and more exact, since the
// product is summed before the larger residual is added.
//
// Initial values as GPT-2 (Radford et al., 2019, §2.3): normal with initial_std, the projections
// that write to the residual stream (o_proj, down_proj) with initial_std / sqrt(2 · layers); norms
// 1. Matrices and embeddings decay, norms do not.
//
// With tensor_degree t > 1 (Shoeybi et al., "Megatron-LM", 2019, §3; rows as in row_split.h): qkv
// and gate_up by columns, o and down by rows, the vocabulary by parts; between layers a rank holds
// [N/t, C]. Gradients of norm weights are partial over kTensor (operands say so) and nothing in a
// template completes them: the builder reduces them with the set's other reductions, once per step.
// There is no decoding with t > 1.
#ifndef STRATA_MODEL_FAMILIES_LLAMA_H_
#define STRATA_MODEL_FAMILIES_LLAMA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

struct EmitOptions {
  int64_t micro_batch = 1;  // B
  int64_t sequence = 1;     // T, at most the model's context
  // Rows of logits that exist at once; 0: as many as make 16 MiB, but at least 256 (fewer, and the
  // table's gradient, which is read and written once per chunk, would bound the head).
  int64_t head_chunk_rows = 0;
  int64_t prefill_chunk = 64;   // rows of a prefill pass; 0: no decoding templates
  int64_t tensor_degree = 1;    // t
  int64_t tensor_chunks = 4;    // into which collectives of the tensor group are cut
  bool split_backward = false;  // also backward_input and backward_weight
  int64_t threads = 1;          // of a rank's pool at most; workspaces are sized for them
  int64_t set_ranges = 1;       // equal ranges that sets are padded to; see FlattenSet
};

// InvalidArgument: shapes that do not fit together.
absl::StatusOr<program::LayerGraph> EmitLlama(const ModelSpec& spec, const EmitOptions& options);

// Rows of the rotary table (constant 0): the context, and a prefill chunk beyond it since a last
// chunk may be longer than what is left of the context.
int64_t RopeTableRows(const ModelSpec& spec, const EmitOptions& options);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILIES_LLAMA_H_
