// What a job trains and validates on: token sources cut into windows.
//
// Window i of length N reads tokens [iN, iN + N) and predicts [iN + 1, iN + N + 1): it needs N + 1
// tokens, and an incomplete last window is dropped. A source of T tokens has (T - 1) / N windows.
// Of packed sources windows hold documents, or parts of them, and padding (data/packing.h).
#ifndef STRATA_DATA_CORPUS_H_
#define STRATA_DATA_CORPUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/packing.h"
#include "data/token_source.h"

namespace strata::data {

struct SourceSpec {
  std::string path;
  double weight = 1;  // share of the samples, relative to the other sources' weights; > 0
};

// The job file's `data` section, paths resolved.
struct CorpusSpec {
  std::vector<SourceSpec> train;
  // At most one of the two. A fraction f makes the last floor(f * windows) windows of each training
  // source (at least one) validation windows, which are never trained on. Of packed sources it is
  // the last documents, from the one on that lies at that share of the tokens; of one that is
  // longer than a sequence, the rest from a whole number of them on.
  std::string validation_path;
  double validation_fraction = 0;
  int64_t sequence = 0;  // tokens in a window, > 0
  // Of the model that reads the tokens: one beyond it is an error when it is read. 0: any.
  int64_t vocabulary = 0;
  bool packing = false;
};

// A window of one of a split's sources.
struct SampleRef {
  int32_t source = 0;
  int64_t window = 0;  // counted within the split: 0 is the split's first window of that source
  friend bool operator==(const SampleRef&, const SampleRef&) = default;
};

// The windows [first_window, first_window + windows) of one file.
struct SplitSource {
  std::shared_ptr<const TokenSource> tokens;
  int64_t first_window = 0;
  int64_t windows = 0;
  double weight = 1;
  std::shared_ptr<const Packing> packing = nullptr;  // null: windows follow each other
};

struct Split {
  std::vector<SplitSource> sources;
  int64_t sequence = 0;

  int64_t windows() const;
  // Sample `index` of `count` samples spread evenly over all windows of all sources, in file order:
  // the samples an evaluation reads. 0 <= index < count <= windows().
  SampleRef Spread(int64_t index, int64_t count) const;
};

// A problem and the field of the data section it belongs to, as "train[0].path".
struct CorpusProblem {
  std::string field;
  absl::Status status;
};

struct Corpus {
  Split train;
  Split validation;  // without sources when the spec asks for none
  // The smallest vocabulary that the sources are known to need (TokenSource): 256 for byte data.
  int64_t vocabulary = 0;
};

// Opens every source. All problems are appended to `problems` (may be null); the status returned is
// the first one's, its text starting with the path: no such file, a directory, empty, a damaged
// header, "shorter than one sequence: 16 bytes, a sequence of 64 needs 65", or, packed, one that
// does not tell where its documents end.
absl::StatusOr<Corpus> OpenCorpus(const CorpusSpec& spec, std::vector<CorpusProblem>* problems);

}  // namespace strata::data

#endif  // STRATA_DATA_CORPUS_H_
