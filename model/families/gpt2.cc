#include <utility>

#include "model/families/families.h"

namespace strata::model {
namespace {

BlockNames Gpt2Names() {
  return {.qkv = "attn.c_attn",
          .q = "attn.c_attn.q",
          .k = "attn.c_attn.k",
          .v = "attn.c_attn.v",
          .o = "attn.c_proj",
          .up = "mlp.c_fc",
          .down = "mlp.c_proj"};
}

Graph Gpt2Block(const ModelSpec& spec, const ForwardOptions& options, bool window) {
  Block block(spec, options, window, Gpt2Names());
  block.UseAttention();
  block.UseFeedForward(/*gated=*/false);
  const WeightId w_norm1 = block.UseNorm("ln_1"), w_bias1 = block.UseBias("ln_1");
  const WeightId w_norm2 = block.UseNorm("ln_2"), w_bias2 = block.UseBias("ln_2");
  block.UseOutputBiases();

  const ValueId x = block.Input();
  const ValueId norm1 = block.LayerNorm(x, w_norm1, w_bias1, "norm1", "rstd1");
  const ValueId attended = block.Attention(norm1, /*rotary=*/false);
  const ValueId residual = block.Add(x, attended, "residual");
  const ValueId norm2 = block.LayerNorm(residual, w_norm2, w_bias2, "norm2", "rstd2");
  const ValueId output = block.Add(residual, block.FeedForward(norm2), "output");
  return std::move(block).Take(output);
}

}  // namespace

ModelGraph Gpt2Forward(const ModelSpec& spec, const ForwardOptions& options) {
  return MakeModel(spec, options,
                   {.block = Gpt2Block,
                    .names = {.embedding = "transformer.wte.weight",
                              .positions = "transformer.wpe.weight",
                              .final_norm = "transformer.ln_f",
                              .blocks = "transformer.h."},
                    .layer_norm = true});
}

}  // namespace strata::model
