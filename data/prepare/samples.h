// What a model will see of a file, decoded: `strata data show`.
#ifndef STRATA_DATA_PREPARE_SAMPLES_H_
#define STRATA_DATA_PREPARE_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/prepare/prepare.h"

namespace strata::data {

struct SampleOptions {
  PrepareInput input;  // or a token file; its weight means nothing here
  // A folder or a tokenizer.json; empty: bytes, and of token files with a larger vocabulary numbers
  // instead of text.
  std::string tokenizer;
  int64_t samples = 3;   // at most
  int64_t sequence = 0;  // windows of so many tokens; 0: whole documents where the file tells them
};

// Neighbouring tokens that all are targets, or all are not.
struct SampleSpan {
  bool trained = false;
  std::string text;
};

struct Sample {
  int64_t index = 0;   // of the document or window, of a record its line
  int64_t begin = 0;   // its first token in the file
  int64_t tokens = 0;  // of which the first kMostShownTokens are shown
  int64_t trained = 0;
  std::vector<SampleSpan> spans;
};
inline constexpr int64_t kMostShownTokens = 4096;

struct SampleSet {
  const char* unit = "document";  // "document", "window" or "record"
  int64_t total = 0;              // units; 0: not counted
  // Of the whole file; of records, of those shown.
  int64_t tokens = 0;
  int64_t trained = 0;
  bool decoded = true;  // false: spans hold the tokens' numbers
  std::vector<Sample> samples;
};

// Of token files and texts samples spread evenly over the file, of JSONL the first records. Errors
// start with the path; of a record with FILE:LINE.
absl::StatusOr<SampleSet> ReadSamples(const SampleOptions& options);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_SAMPLES_H_
