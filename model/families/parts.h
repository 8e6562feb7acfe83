// What families' forwards are made of: attention and feed-forward sections with the options that a
// ModelSpec has, and the layers around the blocks. A family is a forward of these and a table of
// names. All weights are [out, in] as in y = x · Wᵀ.
//
// Layers and what they use (Layer::sets, in this order):
//   "embedding"     {table[, positions]}  the positions of families that learn them
//   "layers.I"      {matrices, norms}     matrices: queries, keys and values packed; the projection
//                                         back; gate and up packed; down; biases of columns. Norms,
//                                         and the biases of projections back, are a set of their
//                                         own because they are whole on every rank of a tensor
//                                         group, and small enough to stay resident where matrices
//                                         are gathered or fetched. On more tensor ranks than key
//                                         heads: {matrices, shared heads, norms}, queries alone
//                                         among the matrices, keys and values in a set that is
//                                         whole on every rank
//   "head"          {final norm, table}   the table is the embedding's set where it is tied
//
// What the backward reads of a block's forward, and users may save by name (recompute.h), in the
// order in which it is made: norm1, rstd1, qkv (as attention reads it), attention, log_sum_exp,
// residual (between attention and feed-forward), norm2, rstd2, gate_up, activation; with norms of
// heads projected and heads_rstd before qkv; where there is no gate up; and what a family adds. By
// default what takes no product is made again: saving norms and activation would take 2C + F more
// numbers per row held from forward to backward (about a third more at F = 8C/3); making them again
// moves 4C + 3F numbers per row through memory, about 1 % of a block's time at C = 768 where its
// products take 6 · 7 MFLOP per row.
//
// Initial values as GPT-2 (Radford et al., 2019, §2.3): normal with initial_std, the projections
// that write to the residual stream with initial_std / sqrt(2 · layers); norms 1 (0 where 1 is
// added), biases 0. Matrices and embeddings decay, norms and biases do not.
//
// With tensor_degree t > 1 (Shoeybi et al., "Megatron-LM", 2019, §3): queries, keys, values, gate
// and up by columns, the projections back by rows, the vocabulary by parts; biases of columns as
// these, all else whole.
#ifndef STRATA_MODEL_FAMILIES_PARTS_H_
#define STRATA_MODEL_FAMILIES_PARTS_H_

#include <cstdint>
#include <string>

#include "model/graph/nodes.h"
#include "model/model_spec.h"
#include "model/passes/model_graph.h"

namespace strata::model {

struct ForwardOptions {
  int64_t degree = 1;   // of the tensor group
  int64_t context = 1;  // ranks that share a sequence
  bool documents =
      false;  // sequences are of several; kPositions says where a row stands in its own
  program::DType type = program::DType::kF32;
};

// Behind a block's prefix, without ".weight" and ".bias". Those of packed rows name parts, or in
// families whose files have the parts alone, nothing that users see.
struct BlockNames {
  std::string qkv = "self_attn.qkv_proj", q = "self_attn.q_proj", k = "self_attn.k_proj",
              v = "self_attn.v_proj", kv = "self_attn.kv_proj", o = "self_attn.o_proj";
  std::string q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm";
  std::string gate_up = "mlp.gate_up_proj", gate = "mlp.gate_proj", up = "mlp.up_proj",
              down = "mlp.down_proj";
};

struct ModelNames {
  std::string embedding = "model.embed_tokens.weight";
  std::string positions;  // empty: they are rotary
  std::string final_norm = "model.norm";
  std::string head = "lm_head.weight";  // where it is not the embedding
  std::string blocks = "model.layers.";
};

// A block while a family writes it down: first the weights, in the order in which sets shall have
// them, then the forward.
class Block {
 public:
  // `window`: it has the model's sliding window, and its rotary table where windows have their own.
  // `norms_add_one`: RMS norms multiply by 1 + weight.
  Block(const ModelSpec& spec, const ForwardOptions& options, bool window, BlockNames names = {},
        bool norms_add_one = false);

  void UseAttention();
  void UseFeedForward(bool gated);
  // Where the spec has them; with the norms.
  void UseOutputBiases();
  void UseHeadNorms();
  WeightId UseNorm(const std::string& name);
  WeightId UseBias(const std::string& name);  // of a layer norm

  ValueId Input();
  ValueId RmsNorm(ValueId x, WeightId weight, const std::string& name,
                  const std::string& statistic);
  ValueId LayerNorm(ValueId x, WeightId weight, WeightId bias, const std::string& name,
                    const std::string& statistic);
  // From and to the stream's width.
  ValueId Attention(ValueId x, bool rotary = true);
  ValueId FeedForward(ValueId x);
  ValueId Add(ValueId x, ValueId branch, const std::string& name);
  Graph Take(ValueId output) &&;

 private:
  WeightId UseWhole(const std::string& name, int64_t size, double value);
  ValueId Projected(ValueId x);
  ValueId Written(ValueId x, WeightId weight, WeightId bias, const std::string& name);

  const ModelSpec& spec_;
  const ForwardOptions options_;
  const bool window_;
  const BlockNames names_;
  const NormOptions norm_;
  const bool shared_;  // fewer key heads than tensor ranks
  const Heads heads_;
  Graph graph_;
  bool gated_ = true;
  WeightId qkv_ = -1, qkv_bias_ = -1, kv_ = -1, kv_bias_ = -1, o_ = -1, o_bias_ = -1;
  WeightId q_norm_ = -1, k_norm_ = -1;
  WeightId up_ = -1, up_bias_ = -1, down_ = -1, down_bias_ = -1;
};

// What a family says of its layers.
struct Layers {
  Graph (*block)(const ModelSpec& spec, const ForwardOptions& options, bool window) = nullptr;
  ModelNames names;
  bool layer_norm = false;     // the last norm is one
  bool norms_add_one = false;  // the last norm multiplies by 1 + weight
  double embedding_scale = 1;  // of the embedding's rows
};

ModelGraph MakeModel(const ModelSpec& spec, const ForwardOptions& options, const Layers& layers);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILIES_PARTS_H_
