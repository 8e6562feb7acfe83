#include "model/families/llama.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::Role;
using program::TensorSpec;

Weight Matrix(std::string name, int64_t rows, int64_t columns, int cut, double std) {
  Weight weight;
  weight.tensor.name = std::move(name);
  weight.tensor.shape = {rows, columns};
  weight.tensor.initializer = {Initializer::Kind::kNormal, std};
  weight.tensor.decay = true;
  weight.cut = cut;
  return weight;
}

Weight Fused(Weight matrix, std::vector<TensorSpec::Part> parts) {
  matrix.tensor.parts = std::move(parts);
  return matrix;
}

Weight Scale(std::string name, int64_t size, std::string set) {
  Weight weight;
  weight.tensor.name = std::move(name);
  weight.tensor.shape = {size};
  weight.tensor.initializer = {Initializer::Kind::kConstant, 1};
  weight.set = std::move(set);
  return weight;
}

Graph Embedding(const ModelSpec& spec, int64_t degree) {
  Graph g("embedding", degree);
  const WeightId table =
      g.Use(Matrix("model.embed_tokens.weight", spec.vocab, spec.hidden, 0, spec.initial_std));
  const ValueId tokens = g.Given("tokens", 1, Layout::kWhole, Role::kTokens);
  g.output = g.As(Embed(g, tokens, table, "embedding"), Layout::kRows);
  return g;
}

Graph Block(const ModelSpec& spec, int64_t degree, bool documents) {
  Graph g("block", degree);
  const double std = spec.initial_std;
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(spec.layers));
  const int64_t q = spec.attention_width();
  const int64_t kv = spec.kv_heads * spec.head_size;
  const int64_t f = spec.ffn;
  const int64_t c = spec.hidden;
  const bool shared = degree > spec.kv_heads;  // by ranks of a tensor group
  const TensorSpec::Part k_part{"self_attn.k_proj.weight", kv},
      v_part{"self_attn.v_proj.weight", kv};
  WeightId w_qkv = -1, w_kv = -1;
  if (shared) {
    w_qkv = g.Use(Matrix("self_attn.q_proj.weight", q, c, 0, std));
    Weight heads = Fused(Matrix("self_attn.kv_proj.weight", 2 * kv, c, -1, std), {k_part, v_part});
    heads.set = ".shared_heads";
    w_kv = g.Use(std::move(heads));
  } else {
    w_qkv = g.Use(Fused(Matrix("self_attn.qkv_proj.weight", q + 2 * kv, c, 0, std),
                        {{"self_attn.q_proj.weight", q}, k_part, v_part}));
  }
  const WeightId w_o = g.Use(Matrix("self_attn.o_proj.weight", c, q, 1, residual_std));
  const WeightId w_gate_up = g.Use(Fused(Matrix("mlp.gate_up_proj.weight", 2 * f, c, 0, std),
                                         {{"mlp.gate_proj.weight", f}, {"mlp.up_proj.weight", f}}));
  const WeightId w_down = g.Use(Matrix("mlp.down_proj.weight", c, f, 1, residual_std));
  const WeightId w_norm1 = g.Use(Scale("input_layernorm.weight", c, ".norms"));
  const WeightId w_norm2 = g.Use(Scale("post_attention_layernorm.weight", c, ".norms"));

  // Of shared heads each rank works with one.
  const Heads heads{spec.heads, shared ? degree : spec.kv_heads, spec.head_size};
  const double epsilon = spec.norm_epsilon;
  const ValueId x = g.input = g.Given("input", c, Layout::kRows, Role::kInput);
  const ValueId norm1 = Norm(g, x, w_norm1, epsilon, "norm1", "rstd1");
  const ValueId projected =
      shared ? LinearWithShared(g, norm1, w_qkv, w_kv, spec.kv_heads, "projected")
             : Linear(g, norm1, w_qkv, "projected");
  const ValueId positions =
      documents ? g.Given("positions", 1, Layout::kWhole, Role::kPositions) : -1;
  const ValueId qkv = Rope(g, projected, positions, heads, "qkv");
  const ValueId attention = Attention(g, qkv, positions, heads, "attention", "log_sum_exp");
  const ValueId residual = Add(g, x, Linear(g, attention, w_o, "attended"), "residual");
  const ValueId norm2 = Norm(g, residual, w_norm2, epsilon, "norm2", "rstd2");
  const ValueId gate_up = Linear(g, norm2, w_gate_up, "gate_up");
  const ValueId activation = Swiglu(g, gate_up, "activation");
  g.output = Add(g, residual, Linear(g, activation, w_down, "down"), "output");
  return g;
}

Graph Head(const ModelSpec& spec, int64_t degree) {
  Graph g("head", degree);
  const WeightId norm = g.Use(Scale("model.norm.weight", spec.hidden, "norm"));
  const char* name = spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  Weight table = Matrix(name, spec.vocab, spec.hidden, 0, spec.initial_std);
  table.set = spec.tied_embeddings ? "embedding" : "lm_head";
  const WeightId w = g.Use(std::move(table));
  const ValueId x = g.input = g.Given("input", spec.hidden, Layout::kRows, Role::kInput);
  const ValueId targets = g.Given("targets", 1, Layout::kWhole, Role::kTargets);
  g.logits = Linear(g, Norm(g, x, norm, spec.norm_epsilon, "normed", "rstd"), w, "logits");
  g.values[g.logits].streamed = true;
  Loss(g, g.logits, targets);
  return g;
}

}  // namespace

ModelGraph LlamaGraph(const ModelSpec& spec, int64_t degree, bool documents) {
  ModelGraph model;
  model.graphs = {Embedding(spec, degree), Block(spec, degree, documents), Head(spec, degree)};
  model.layers.push_back({"embedding", "", 0});
  for (int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = absl::StrCat("layers.", i);
    model.layers.push_back({name, absl::StrCat("model.", name, "."), 1, i});
  }
  model.layers.push_back({"head", "", 2});
  return model;
}

absl::StatusOr<program::LayerGraph> EmitLlama(const ModelSpec& spec, const EmitOptions& options) {
  RETURN_IF_ERROR(Validate(spec));
  RETURN_IF_ERROR(CheckOptions(spec, options));
  if (spec.family != Family::kLlama) {
    return absl::InvalidArgumentError("model.family: not llama");
  }
  return EmitModel(LlamaGraph(spec, options.tensor_degree, options.documents), spec, options);
}

}  // namespace strata::model
