// A file of tokens, read at random positions.
//
// Files are read with pread and never mapped: corpora are usually larger than memory, and mapped
// pages would count as the process's memory. This width reads text as bytes (token = byte value);
// other kinds are further implementations of TokenSource, chosen in OpenTokenSource.
#ifndef STRATA_DATA_TOKEN_SOURCE_H_
#define STRATA_DATA_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

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
  // The smallest vocabulary that holds every token of this kind of file: 256 for bytes.
  virtual int64_t vocabulary() const = 0;
  // What a message calls the tokens: "bytes" or "tokens".
  virtual const char* unit() const = 0;

  // Reads tokens [begin, begin + count) into `tokens` [count]. The range must lie in the file.
  // Allocates nothing. DataLoss: the file has become shorter or cannot be read any more.
  virtual absl::Status Read(int64_t begin, int64_t count, int32_t* tokens) const = 0;

  // Sets to -1 those of `targets` [count] (the tokens from `begin` on) that are not trained on.
  // Plain text trains on every token.
  virtual absl::Status MaskTargets(int64_t begin, int64_t count, int32_t* targets) const {
    static_cast<void>(begin), static_cast<void>(count), static_cast<void>(targets);
    return absl::OkStatus();
  }
};

// Opens a file; its kind is told by its magic and its name. Errors start with the path:
// NotFound (no such file), PermissionDenied, InvalidArgument (a directory, empty, not a regular
// file), Unimplemented (a kind that is not supported yet).
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenTokenSource(const std::string& path);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKEN_SOURCE_H_
