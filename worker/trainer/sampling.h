// The choice of the next token.
#ifndef STRATA_WORKER_TRAINER_SAMPLING_H_
#define STRATA_WORKER_TRAINER_SAMPLING_H_

#include <cstdint>

#include "absl/types/span.h"

namespace strata::worker {

struct SamplingRule {
  double temperature = 0;  // 0: the largest logit, the first among equals
  int64_t top_k = 0;       // only tokens as likely as the k-th likeliest; 0: all
  double top_p = 0;        // only the fewest likeliest that have this probability; 0 or 1: all
  uint64_t seed = 0;
};

// A token with probability softmax(logits / temperature) among those that the rule leaves, by a
// number that is a function of (seed, position) alone. The order is that of transformers and vLLM:
// temperature, then top_k (all that equal the k-th stay), then top_p of what is left (the token
// that reaches it stays; of equals the smaller id comes first).
int32_t SampleToken(absl::Span<const float> logits, const SamplingRule& rule, int64_t position);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_SAMPLING_H_
