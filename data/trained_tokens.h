// How many tokens of each window of a split are trained on: targets that no mask leaves out, and
// that padding is not.
//
// The gradients of a step are of the mean over the trained tokens of its whole global batch, so
// every rank has to know their number before its first backward, and all the same. Each counts for
// itself, once, when training opens its files: of files without masks from what the windows are,
// of others by reading the masks from front to back (a bit per token: 128 MiB of 2^30 tokens).
// After that a step adds up numbers that are at hand, and every layout adds the same whole ones.
// Counting step by step would have every rank read the masks of the whole global batch at random
// places, in every pass again; adding up over ranks would put a collective before every step's
// first backward, in which all wait for the one whose files come slowest.
#ifndef STRATA_DATA_TRAINED_TOKENS_H_
#define STRATA_DATA_TRAINED_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/corpus.h"
#include "data/sampler.h"

namespace strata::data {

// Immutable; any number of threads may read at once. Four bytes per window of files with masks.
class TrainedTokens {
 public:
  // Errors are those of reading.
  static absl::StatusOr<TrainedTokens> Count(const Split& split);

  int64_t Of(SampleRef sample) const;
  // Of the samples [first, first + count) of `sampler`, which is of the same split. O(count), or
  // O(1) where all windows are full.
  int64_t Of(const Sampler& sampler, int64_t first, int64_t count) const;
  // Of `count` samples spread over the split (Split::Spread).
  int64_t OfSpread(int64_t count) const;

 private:
  explicit TrainedTokens(const Split& split);

  Split split_;
  bool full_;                                 // every token of every window is trained on
  std::vector<std::vector<int32_t>> counts_;  // by source; empty: it has no mask
};

}  // namespace strata::data

#endif  // STRATA_DATA_TRAINED_TOKENS_H_
