// From texts and JSONL to a token file: `strata data prepare`.
//
// Inputs follow one another; each is read as often as its weight says, its last, partial pass
// taking documents spread evenly over it. After every plain document stands the tokenizer's
// end-of-text token, where it has one; nothing between chats. The output's bytes depend on the
// inputs, the tokenizer and the options alone, not on threads or interruptions; memory does not
// grow with the inputs.
#ifndef STRATA_DATA_PREPARE_PREPARE_H_
#define STRATA_DATA_PREPARE_PREPARE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "data/files/token_writer.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {

struct PrepareInput {
  enum class Kind { kByName, kText, kJsonLines };

  std::string path;
  // Passes over it, > 0 and at most 1000. A text is one document and has whole passes only.
  double weight = 1;
  // kByName: .jsonl (also .jsonl.gz, .jsonl.zst) is JSONL, a record a line; all else text, which is
  // one document.
  Kind kind = Kind::kByName;
};

struct PrepareOptions {
  std::vector<PrepareInput> inputs;
  std::string output;
  TokenFormat format = TokenFormat::kLlmq;
  std::string tokenizer;  // a folder or a tokenizer.json; empty: tokens are bytes
  int threads = 1;
  int64_t max_tokens = 0;    // longer documents lose their ends; 0: any length
  bool skip_bad = false;     // records that cannot be used are counted, not errors
  double sync_seconds = 10;  // what a crash may cost
};

struct PrepareProgress {
  std::string path;  // of the input that is being read
  // Of the input files, compressed or not, all passes.
  int64_t done_bytes = 0, total_bytes = 0;
  int64_t documents = 0, tokens = 0;
};

struct PrepareReport {
  std::string path;  // what a job names
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t trained = 0;    // tokens that are targets
  int64_t longest = 0;    // document, in tokens
  int64_t truncated = 0;  // documents cut by max_tokens
  int64_t skipped = 0;    // records left out by skip_bad
  int64_t input_bytes = 0;
  double seconds = 0;  // of this call alone
};

struct PrepareEvents {
  // False ends the work: what there is stays for the next call with the same options.
  std::function<bool(const PrepareProgress&)> progress = [](const PrepareProgress&) {
    return true;
  };
  // What a user should know before the end, in one line.
  std::function<void(const std::string&)> notice = [](const std::string&) {};
};

// Goes on where an earlier call with the same options and unchanged inputs was ended, by a crash
// too. InvalidArgument: something is wrong with the options, the inputs, the tokenizer, or with
// records: a line `FILE:LINE: why` for each of the first kMostBadRecords of them. Cancelled:
// progress said so. Otherwise errors of reading and writing. There is no output unless it is OK.
absl::StatusOr<PrepareReport> PrepareData(const PrepareOptions& options,
                                          const PrepareEvents& events, const common::Clock& clock);
inline constexpr size_t kMostBadRecords = 20;

// Of all that the output's bytes depend on: inputs (size, time of change, some of their bytes),
// tokenizer, options. Also tells early what is wrong with any of them but the records.
absl::StatusOr<std::string> PrepareDigest(const PrepareOptions& options);

// `FILE` or `FILE:WEIGHT`. A file of that whole name goes first; what follows the last colon is a
// weight only if it is a number. InvalidArgument: the weight is out of range, or the name is "-".
absl::StatusOr<PrepareInput> ParsePrepareInput(const std::string& text);

// The encoder of one input's pieces and whether it is JSONL, shared with `strata data show`.
absl::StatusOr<bool> IsJsonLines(const PrepareInput& input);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_PREPARE_H_
