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
//                                       resident where matrices are gathered or fetched. On more
//                                       tensor ranks than key and value heads: {matrices, shared
//                                       heads, norms}, q_proj alone among the matrices and k_proj,
//                                       v_proj in a set that is whole on every rank
//   "head"          {final norm, table} model.norm.weight; the table is the embedding's set (tied)
//                                       or lm_head.weight
//
// What the backward reads of a block's forward, and users may save by name (recompute.h), in this
// order: norm1, rstd1, qkv (after rotation), attention, log_sum_exp, residual (between attention
// and feed-forward), norm2, rstd2, gate_up, activation. By default norm1, norm2 and activation are
// made again: saving them would take 2C + F more floats per row held from forward to backward
// (about a third more at F = 8C/3); making them again moves 4C + 3F floats per row through memory,
// about 1 % of a block's time at C = 768 where its products take 6 · 7 MFLOP per row.
//
// Initial values as GPT-2 (Radford et al., 2019, §2.3): normal with initial_std, the projections
// that write to the residual stream (o_proj, down_proj) with initial_std / sqrt(2 · layers); norms
// 1. Matrices and embeddings decay, norms do not.
//
// With tensor_degree t > 1 (Shoeybi et al., "Megatron-LM", 2019, §3): qkv and gate_up by columns, o
// and down by rows, the vocabulary by parts.
#ifndef STRATA_MODEL_FAMILIES_LLAMA_H_
#define STRATA_MODEL_FAMILIES_LLAMA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "model/passes/emit_model.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

// The forwards of a Llama's layers, for a tensor group of `degree` ranks. `documents`: sequences
// are of several, and kPositions says where each row stands in its own.
ModelGraph LlamaGraph(const ModelSpec& spec, int64_t degree, bool documents = false);

// InvalidArgument: shapes that do not fit together.
absl::StatusOr<program::LayerGraph> EmitLlama(const ModelSpec& spec, const EmitOptions& options);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILIES_LLAMA_H_
