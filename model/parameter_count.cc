#include "model/parameter_count.h"

namespace strata::model {
namespace {

// What the weights of a block hold: a norm's weight where there is one, biases where the spec has
// them.
double BlockParameters(const ModelSpec& spec) {
  const auto hidden = static_cast<double>(spec.hidden);
  const auto qkv = static_cast<double>(spec.qkv_rows());
  const auto ffn = static_cast<double>(spec.ffn);
  const bool gemma = spec.family == Family::kGemma2 || spec.family == Family::kGemma3;
  const bool gpt2 = spec.family == Family::kGpt2;
  const double up = gpt2 ? ffn : 2 * ffn;  // with the gate
  double count = hidden * (qkv + static_cast<double>(spec.attention_width()) + up + ffn);
  count += (gemma || gpt2 ? 4 : 2) * hidden;  // norms, or norms and their biases
  if (spec.family == Family::kQwen3 || spec.family == Family::kGemma3) {
    count += 2 * static_cast<double>(spec.head_size);
  }
  if (spec.attention_bias) count += qkv;
  if (spec.output_bias) count += hidden;
  if (spec.feed_forward_bias) count += up + hidden;
  return count;
}

}  // namespace

double ParameterCount(const ModelSpec& spec) {
  const auto hidden = static_cast<double>(spec.hidden);
  const double table = hidden * static_cast<double>(spec.vocab);
  double count = spec.tied_embeddings ? table : 2 * table;
  if (spec.family == Family::kGpt2) count += hidden * static_cast<double>(spec.context);
  count += static_cast<double>(spec.layers) * BlockParameters(spec);
  return count + (spec.family == Family::kGpt2 ? 2 : 1) * hidden;
}

}  // namespace strata::model
