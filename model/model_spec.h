// The sizes and conventions of one model, as families share them.
#ifndef STRATA_MODEL_MODEL_SPEC_H_
#define STRATA_MODEL_MODEL_SPEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace strata::model {

enum class Family : uint8_t { kLlama, kGpt2, kMistral, kQwen2, kQwen3, kGemma2, kGemma3, kPhi3 };

// Of the feed-forward layer: gated, act(gate) · up, but in GPT-2.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu };

// How rotary angles are changed for sequences longer than those that a model was first trained on,
// with Hugging Face's names for it.
struct RopeScaling {
  enum class Kind : uint8_t { kNone, kLinear, kLlama3, kLongRope, kYarn } kind = Kind::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  int64_t original_context = 0;                      // positions before scaling
  double attention_factor = 0;  // cosines and sines are multiplied by it; 0: what the kind says
  // longrope, of each pair that turns: for contexts up to original_context, and beyond.
  std::vector<double> short_factor, long_factor;

  bool operator==(const RopeScaling&) const = default;
};

// What a family always has (QK norms, 1 + w norms, learned positions, …) follows from `family`;
// what differs between its models stands here.
struct ModelSpec {
  Family family = Family::kLlama;
  int64_t layers = 0;
  int64_t hidden = 0;     // C
  int64_t heads = 0;      // H, of queries
  int64_t kv_heads = 0;   // K, of keys and values; divides heads
  int64_t head_size = 0;  // D
  int64_t ffn = 0;        // F, of the feed-forward layer
  int64_t vocab = 0;      // V
  int64_t context = 0;    // positions that the model knows
  bool tied_embeddings = false;
  double rope_theta = 10000;
  double local_rope_theta = 0;  // of layers with a sliding window, without scaling; 0: rope_theta
  int64_t rotary_size = 0;      // first elements of a head that turn, even; 0: all
  RopeScaling rope_scaling;
  double norm_epsilon = 1e-5;
  double initial_std = 0.02;
  Activation activation = Activation::kSilu;
  bool attention_bias = false;       // of the projections to queries, keys and values
  bool output_bias = false;          // of the attention's output projection
  bool feed_forward_bias = false;    // of its projections
  int64_t sliding_window = 0;        // a token sees so many, itself included; 0: all before
  std::vector<bool> full_attention;  // per layer, where there is a window: it sees everything
  double query_scale = 0;            // scores are q kᵀ / √query_scale; 0: head_size
  double attention_softcap = 0;      // scores become softcap · tanh(score / softcap); 0: none
  double logit_softcap = 0;

  int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_size; }
  int64_t attention_width() const { return heads * head_size; }
  int64_t rotated() const { return rotary_size > 0 ? rotary_size : head_size; }
  // Of a layer; 0: none.
  int64_t window(int64_t layer) const {
    return sliding_window > 0 && !full_attention.empty() && full_attention[layer] ? 0
                                                                                  : sliding_window;
  }
};

// InvalidArgument, naming the field, for shapes that no model can have (or whose parameters would
// overflow the arithmetic done on them).
absl::Status Validate(const ModelSpec& spec);

}  // namespace strata::model

#endif  // STRATA_MODEL_MODEL_SPEC_H_
