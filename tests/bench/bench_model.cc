#include "tests/bench/bench_model.h"

namespace strata::bench {

model::ModelSpec BenchModel(bool quick, bool tied) {
  model::ModelSpec spec = {.layers = 12,
                           .hidden = 768,
                           .heads = 12,
                           .kv_heads = 12,
                           .head_size = 64,
                           .ffn = 2048,
                           .vocab = 50257,
                           .context = 1024,
                           .tied_embeddings = tied};
  if (!quick) return spec;
  spec.layers = 4;
  spec.hidden = 192;
  spec.heads = spec.kv_heads = 6;
  spec.head_size = 32;
  spec.ffn = 512;
  spec.vocab = 5003;
  return spec;
}

}  // namespace strata::bench
