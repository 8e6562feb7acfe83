#include <cmath>
#include <utility>

#include "model/families/families.h"

namespace strata::model {
namespace {

constexpr bool kNormsAddOne = true;

// Norms before and behind each section.
Graph GemmaBlock(const ModelSpec& spec, const ForwardOptions& options, bool window) {
  Block block(spec, options, window, {}, kNormsAddOne);
  block.UseAttention();
  block.UseFeedForward(/*gated=*/true);
  const WeightId w_norm1 = block.UseNorm("input_layernorm");
  const WeightId w_behind1 = block.UseNorm("post_attention_layernorm");
  const WeightId w_norm2 = block.UseNorm("pre_feedforward_layernorm");
  const WeightId w_behind2 = block.UseNorm("post_feedforward_layernorm");
  block.UseOutputBiases();
  if (spec.family == Family::kGemma3) block.UseHeadNorms();

  const ValueId x = block.Input();
  const ValueId attended = block.Attention(block.RmsNorm(x, w_norm1, "norm1", "rstd1"));
  const ValueId behind1 = block.RmsNorm(attended, w_behind1, "attended_norm", "attended_rstd");
  const ValueId residual = block.Add(x, behind1, "residual");
  const ValueId down = block.FeedForward(block.RmsNorm(residual, w_norm2, "norm2", "rstd2"));
  const ValueId behind2 = block.RmsNorm(down, w_behind2, "down_norm", "down_rstd");
  const ValueId output = block.Add(residual, behind2, "output");
  return std::move(block).Take(output);
}

}  // namespace

ModelGraph GemmaForward(const ModelSpec& spec, const ForwardOptions& options) {
  return MakeModel(spec, options,
                   {.block = GemmaBlock,
                    .norms_add_one = kNormsAddOne,
                    .embedding_scale = std::sqrt(static_cast<double>(spec.hidden))});
}

}  // namespace strata::model
