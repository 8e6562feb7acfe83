// What `strata` ends with (CLI.md).
#ifndef STRATA_CLIENT_EXIT_CODES_H_
#define STRATA_CLIENT_EXIT_CODES_H_

#include "absl/status/status.h"

namespace strata::client {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;      // the command or the job failed
inline constexpr int kExitUsage = 2;       // usage, or an invalid file
inline constexpr int kExitInfeasible = 3;  // does not fit, cannot be placed
inline constexpr int kExitNotAllowed = 4;
inline constexpr int kExitNotFound = 5;
inline constexpr int kExitUnavailable = 6;  // no answer, or timed out
inline constexpr int kExitInterrupted = 130;

// The exit code of a status: InvalidArgument and FailedPrecondition are the user's (2).
inline int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return kExitUsage;
    case absl::StatusCode::kResourceExhausted:
      return kExitInfeasible;
    case absl::StatusCode::kPermissionDenied:
      return kExitNotAllowed;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

}  // namespace strata::client

#endif  // STRATA_CLIENT_EXIT_CODES_H_
