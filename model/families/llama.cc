#include <utility>

#include "model/families/families.h"

namespace strata::model {
namespace {

Graph LlamaBlock(const ModelSpec& spec, const ForwardOptions& options, bool window) {
  Block block(spec, options, window);
  block.UseAttention();
  block.UseFeedForward(/*gated=*/true);
  const WeightId w_norm1 = block.UseNorm("input_layernorm");
  const WeightId w_norm2 = block.UseNorm("post_attention_layernorm");
  block.UseOutputBiases();
  if (spec.family == Family::kQwen3) block.UseHeadNorms();

  const ValueId x = block.Input();
  const ValueId attended = block.Attention(block.RmsNorm(x, w_norm1, "norm1", "rstd1"));
  const ValueId residual = block.Add(x, attended, "residual");
  const ValueId down = block.FeedForward(block.RmsNorm(residual, w_norm2, "norm2", "rstd2"));
  const ValueId output = block.Add(residual, down, "output");
  return std::move(block).Take(output);
}

}  // namespace

ModelGraph LlamaForward(const ModelSpec& spec, const ForwardOptions& options) {
  return MakeModel(spec, options, {.block = LlamaBlock});
}

}  // namespace strata::model
