// A small good job file for tests, one key a line.
#ifndef STRATA_SPEC_GOOD_JOB_H_
#define STRATA_SPEC_GOOD_JOB_H_

#include <string>

namespace strata::spec {

inline std::string GoodJob() {
  return R"(name: bad
model:
  family: llama
  layers: 2
  hidden: 64
  heads: 4
  kv_heads: 2
  ffn: 128
  vocab: 256
  rope:
    theta: 10000
data:
  train:
    - path: /box/text.txt
  shuffle: true
  validation:
    fraction: 0.1
train:
  steps: 4
  sequence: 64
  global_batch: 8
  micro_batch: 1
  seed: 1
  precision: f32
  optimizer:
    name: adamw
    learning_rate: 0.001
  schedule:
    name: cosine
    warmup_steps: 5
    final_fraction: 0.1
parallel:
  data: 1
  shard: none
resources:
  device: cpu
  priority: 0
evaluate:
  every_steps: 2
  sequences: 4
restart:
  max_without_progress: 3
checkpoint:
  every_steps: 2
  directory: /box/unused
)";
}

// GoodJob with the first `from` replaced by `to`; ends the process when there is none.
inline std::string Changed(const std::string& from, const std::string& to) {
  std::string text = GoodJob();
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace strata::spec

#endif  // STRATA_SPEC_GOOD_JOB_H_
