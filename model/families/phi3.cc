#include <utility>

#include "model/families/families.h"

namespace strata::model {
namespace {

// Of packed tensors.
BlockNames Phi3Names() {
  return {.q = "self_attn.qkv_proj.q",
          .k = "self_attn.qkv_proj.k",
          .v = "self_attn.qkv_proj.v",
          .gate = "mlp.gate_up_proj.gate",
          .up = "mlp.gate_up_proj.up"};
}

Graph Phi3Block(const ModelSpec& spec, const ForwardOptions& options, bool window) {
  Block block(spec, options, window, Phi3Names());
  block.UseAttention();
  block.UseFeedForward(/*gated=*/true);
  const WeightId w_norm1 = block.UseNorm("input_layernorm");
  const WeightId w_norm2 = block.UseNorm("post_attention_layernorm");
  block.UseOutputBiases();

  const ValueId x = block.Input();
  const ValueId attended = block.Attention(block.RmsNorm(x, w_norm1, "norm1", "rstd1"));
  const ValueId residual = block.Add(x, attended, "residual");
  const ValueId down = block.FeedForward(block.RmsNorm(residual, w_norm2, "norm2", "rstd2"));
  const ValueId output = block.Add(residual, down, "output");
  return std::move(block).Take(output);
}

}  // namespace

ModelGraph Phi3Forward(const ModelSpec& spec, const ForwardOptions& options) {
  return MakeModel(spec, options, {.block = Phi3Block});
}

}  // namespace strata::model
