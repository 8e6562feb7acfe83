// The text of a file that a user named.
#ifndef STRATA_CLIENT_TEXT_FILE_H_
#define STRATA_CLIENT_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::client {

// At most one byte more than `most`, so that a reader can tell that it is too large.
// InvalidArgument in one line, `PATH: why`, for what is no file or cannot be read; `kind` is what
// should be named: "job file".
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t most,
                                         absl::string_view kind);

}  // namespace strata::client

#endif  // STRATA_CLIENT_TEXT_FILE_H_
