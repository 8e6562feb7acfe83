// What `strata` ends with after failures of its own.
#ifndef STRATA_CLIENT_EXIT_CODES_H_
#define STRATA_CLIENT_EXIT_CODES_H_

#include "absl/status/status.h"
#include "protocol/exit_codes.h"

namespace strata::client {

using protocol::kExitDone;
using protocol::kExitFailed;
using protocol::kExitInfeasible;
using protocol::kExitInterrupted;
using protocol::kExitNotAllowed;
using protocol::kExitNotFound;
using protocol::kExitUnavailable;
using protocol::kExitUsage;

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
