// Reads windows into a batch's buffers.
#ifndef STRATA_DATA_BATCH_READER_H_
#define STRATA_DATA_BATCH_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "data/corpus.h"
#include "data/sampler.h"

namespace strata::data {

// Used by one thread at a time; allocates nothing after construction.
class BatchReader {
 public:
  explicit BatchReader(Split split);

  // One window: `tokens` [sequence] and `targets` [sequence]; a target < 0 is not trained on.
  // `positions` [sequence] may be null: a token's place inside its document, or the part of it that
  // the window holds; in the window where windows are not packed. Padding has token 0, target -1
  // and position 0: each a document of its own, which costs attention least.
  absl::Status ReadWindow(SampleRef sample, int32_t* tokens, int32_t* targets,
                          int32_t* positions = nullptr);
  // The windows of global sample indices [first, first + count), row by row: [count, sequence].
  absl::Status ReadBatch(const Sampler& sampler, int64_t first, int64_t count, int32_t* tokens,
                         int32_t* targets);

 private:
  // Tokens [begin, begin + rows), each of which predicts the next.
  absl::Status ReadRows(const TokenSource& source, int64_t begin, int64_t rows, int32_t* tokens,
                        int32_t* targets);

  Split split_;
  std::vector<int32_t> window_;  // [sequence + 1]
};

}  // namespace strata::data

#endif  // STRATA_DATA_BATCH_READER_H_
