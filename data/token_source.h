// A file of tokens, read at random positions. Its kinds stand in files/.
#ifndef STRATA_DATA_TOKEN_SOURCE_H_
#define STRATA_DATA_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::data {

// Immutable after opening; any number of threads may read at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual const std::string& path() const = 0;
  // Tokens in the file.
  virtual int64_t tokens() const = 0;
  // Size of the file, and what one token takes in it (for messages).
  virtual int64_t bytes() const = 0;
  // The smallest vocabulary that is known to be needed: 256 for bytes; what the header says, where
  // it does; else 1 + the largest token of blocks that opening read here and there. A token beyond
  // it may still come (see Read).
  virtual int64_t vocabulary() const = 0;
  // What a message calls the tokens: "bytes" or "tokens".
  virtual const char* unit() const = 0;

  // Reads tokens [begin, begin + count) into `tokens` [count]. The range must lie in the file.
  // Allocates nothing but messages. DataLoss: the file has become shorter or cannot be read any
  // more, or a token is negative or beyond the vocabulary given at opening; the text names the path
  // and the position.
  virtual absl::Status Read(int64_t begin, int64_t count, int32_t* tokens) const = 0;

  // Sets to -1 those of `targets` [count] (the tokens from `begin` on) that are not trained on.
  // Text, and files without a mask, train on every token.
  virtual absl::Status MaskTargets(int64_t begin, int64_t count, int32_t* targets) const = 0;
  // Whether there is a mask.
  virtual bool masked() const = 0;

  // Where each document ends: the token after its last one; ascending, the last one is tokens().
  // Text is one document. Memory and time grow with their number. FailedPrecondition: the file
  // does not tell, and no FILE.documents stands beside it; other errors: that file is damaged.
  virtual absl::StatusOr<std::vector<int64_t>> DocumentEnds() const = 0;
};

// Opens a file; its kind is told by its first bytes, and without known ones by its name: .bin are
// raw 16-bit tokens, all else is text, whose tokens are its bytes. Megatron's files are named by
// the .idx. `vocabulary`: of the model that reads it; 0: any. Errors start with the path: NotFound
// (no such file), PermissionDenied, InvalidArgument (a directory, empty, not a regular file, a
// damaged header, JSONL), Unimplemented (a version or variant that is not read).
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenTokenSource(const std::string& path,
                                                                   int64_t vocabulary = 0);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKEN_SOURCE_H_
