// What a failed call to the controller says, for programs and for people: a status of the call's
// code whose payloads are the details of Google's error model
// (proto/google/rpc/error_details.proto).
#ifndef STRATA_CLIENT_API_ERRORS_H_
#define STRATA_CLIENT_API_ERRORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "spec/position_map.h"

namespace strata::client {

// A status of this code with the details of a serialised google.rpc.Status; `details` that are none
// are ignored: they come from outside.
absl::Status WithDetails(absl::StatusCode code, absl::string_view message,
                         absl::string_view details);

// ErrorInfo.reason ("INFEASIBLE"), or empty.
std::string ReasonOf(const absl::Status& status);

struct FieldViolation {
  std::string field;  // path of the job file: train.steps
  std::string description;
};
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);

// What `strata` ends with after a call that failed so (CLI.md). Differs from ExitCodeOf, which is
// about files and flags: a precondition of the cluster is 3 when nothing could run the job, else 1,
// as is a limit of the cluster.
int ExitCodeOfCall(const absl::Status& status);

// The same failure with a message of one line per field violation, FILE:LINE:COLUMN: PATH: WHAT,
// where `file` is the job file as the user wrote it. Unchanged without violations.
absl::Status AtPositions(const absl::Status& status, const std::string& file,
                         const spec::PositionMap& positions);

// The same failure, its fields named as the flags that they were typed with: FLAG: WHAT. Unchanged
// where no violation is of one of `flags`, by field.
absl::Status AtFlags(const absl::Status& status, const std::map<std::string, std::string>& flags);

}  // namespace strata::client

#endif  // STRATA_CLIENT_API_ERRORS_H_
