// Token files made of what users have: records (JSONL), compressed text and, for a model with a
// tokenizer, text. Trainers read token files alone.
//
// Each file is made once and kept: its name says what it was made of (data::PrepareDigest and its
// content), so that one that is there is the right one. What was begun is gone on with.
#ifndef STRATA_CLIENT_PREPARED_DATA_H_
#define STRATA_CLIENT_PREPARED_DATA_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/terminal/terminal.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// Whether trainers cannot read the file as it is. InvalidArgument: it is not there, empty, no file,
// damaged.
absl::StatusOr<bool> NeedsPreparation(const std::string& path, bool has_tokenizer);

class TokenFileCache {
 public:
  struct Entry {
    std::string path;         // of the token file
    v1::PreparedFrom source;  // what it was made of
  };

  // `tokenizer`: its folder; empty: tokens are bytes. `folder`: where the token files are kept,
  // made when it is needed; empty: `.strata` beside the file that they are made of.
  TokenFileCache(std::string tokenizer, std::string folder, Terminal& terminal)
      : tokenizer_(std::move(tokenizer)), folder_(std::move(folder)), terminal_(terminal) {}

  // The token file of `path` (absolute, NeedsPreparation), made now if it is not there; that is
  // told, with its progress. InvalidArgument: all that is wrong in it, `FILE:LINE: why` a line.
  absl::StatusOr<Entry> Get(const std::string& path);

 private:
  absl::Status Make(const std::string& path, const std::string& token_file);

  const std::string tokenizer_;
  const std::string folder_;
  Terminal& terminal_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_PREPARED_DATA_H_
