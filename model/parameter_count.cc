#include "model/parameter_count.h"

namespace strata::model {
namespace {

// GPT-2 (Radford et al., 2019): every matrix has a bias, both norms too; two feed-forward matrices.
double Gpt2Layer(double hidden, double ffn) {
  const double attention = 4 * hidden * hidden + 4 * hidden;
  const double feed_forward = 2 * hidden * ffn + ffn + hidden;
  return attention + feed_forward + 4 * hidden;
}

// Llama (Touvron et al., 2023) and what follows it: no biases but those named, gated feed-forward.
double LlamaLayer(const ModelSpec& spec) {
  const auto hidden = static_cast<double>(spec.hidden);
  const auto qkv = static_cast<double>(spec.qkv_rows());
  const double attention = hidden * (qkv + static_cast<double>(spec.attention_width()));
  const double feed_forward = 3 * hidden * static_cast<double>(spec.ffn);
  double extra = 0;
  if (spec.family == Family::kQwen2) extra = qkv;  // biases of q, k and v
  if (spec.family == Family::kQwen3) {             // norms of queries' and keys' heads
    extra = 2 * static_cast<double>(spec.head_size);
  }
  return attention + feed_forward + 2 * hidden + extra;
}

}  // namespace

double ParameterCount(const ModelSpec& spec) {
  const auto hidden = static_cast<double>(spec.hidden);
  const auto layers = static_cast<double>(spec.layers);
  const double table = hidden * static_cast<double>(spec.vocab);
  const double tables = spec.tied_embeddings ? table : 2 * table;
  if (spec.family == Family::kGpt2) {
    const double positions = hidden * static_cast<double>(spec.context);
    return tables + positions + layers * Gpt2Layer(hidden, static_cast<double>(spec.ffn)) +
           2 * hidden;
  }
  return tables + layers * LlamaLayer(spec) + hidden;
}

}  // namespace strata::model
