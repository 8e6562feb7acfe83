// The choice of the next token.
#ifndef STRATA_WORKER_TRAINER_SAMPLING_H_
#define STRATA_WORKER_TRAINER_SAMPLING_H_

#include <cstdint>

#include "absl/types/span.h"

namespace strata::worker {

// Temperature 0: the largest logit, the first among equals. Otherwise a token with probability
// softmax(logits / temperature), by a number that is a function of (seed, position) alone.
int32_t SampleToken(absl::Span<const float> logits, double temperature, uint64_t seed,
                    int64_t position);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_SAMPLING_H_
