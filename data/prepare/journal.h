// How far an interrupted preparation has come: OUT.partial.journal beside what it has written.
#ifndef STRATA_DATA_PREPARE_JOURNAL_H_
#define STRATA_DATA_PREPARE_JOURNAL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/files/token_writer.h"
#include "data/prepare/document_reader.h"
#include "data/prepare/prepare.h"

namespace strata::data {

// Where the reading is among the inputs.
struct InputPosition {
  int64_t input = 0;
  int64_t pass = 0;
  ReaderPosition reader;
};

struct Journal {
  std::string digest;  // PrepareDigest: of what it is the journal
  int64_t date = 0;    // when the preparation began, in seconds since 1970
  InputPosition input;
  TokenWriter::Position output;
  bool cut = false;  // of the current document the rest is left out
  // Its counts; the rest is not kept.
  PrepareReport counts;
};

std::string JournalPath(const TokenFile& output);
// NotFound: there is none. InvalidArgument: it is damaged, which a crash cannot do.
absl::StatusOr<Journal> ReadJournal(const std::string& path);
absl::Status WriteJournal(const std::string& path, const Journal& journal);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_JOURNAL_H_
