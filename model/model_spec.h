// The sizes and conventions of one model, as families share them.
#ifndef STRATA_MODEL_MODEL_SPEC_H_
#define STRATA_MODEL_MODEL_SPEC_H_

#include <cstdint>

#include "absl/status/status.h"

namespace strata::model {

enum class Family : uint8_t { kLlama, kGpt2, kMistral, kQwen2, kQwen3 };

struct ModelSpec {
  Family family = Family::kLlama;
  int64_t layers = 0;
  int64_t hidden = 0;     // C
  int64_t heads = 0;      // H, of queries
  int64_t kv_heads = 0;   // K, of keys and values; divides heads
  int64_t head_size = 0;  // D, even
  int64_t ffn = 0;        // F, of the gated feed-forward layer
  int64_t vocab = 0;      // V
  int64_t context = 0;    // positions that the model knows
  bool tied_embeddings = false;
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  double initial_std = 0.02;

  int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_size; }
  int64_t attention_width() const { return heads * head_size; }
};

// InvalidArgument, naming the field, for shapes that no model can have (or whose parameters would
// overflow the arithmetic done on them).
absl::Status Validate(const ModelSpec& spec);

}  // namespace strata::model

#endif  // STRATA_MODEL_MODEL_SPEC_H_
