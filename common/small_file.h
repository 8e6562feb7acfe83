// Whole files of a few kilobytes.
#ifndef STRATA_COMMON_SMALL_FILE_H_
#define STRATA_COMMON_SMALL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::common {

// InvalidArgument for what a person must change: a path that is no path, or may not be used;
// Unavailable for what may pass, such as a full disk. "PATH: No space left on device (write)".
absl::Status FileError(const std::string& path, const char* action, int error);

// The file's bytes; also of /proc, whose files tell no size. NotFound: there is none. Other errors
// name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);
// The same, empty where it cannot be read.
std::string TextOf(const std::string& path);

// Replaces the file: a reader sees the old bytes or the new ones, also after a crash of this
// process. `durable`: also after one of the machine. One writer at a time: the new bytes grow in
// PATH.new, which a crash leaves behind and the next writer takes.
absl::Status ReplaceFile(const std::string& path, const std::string& bytes, bool durable);

}  // namespace strata::common

#endif  // STRATA_COMMON_SMALL_FILE_H_
