// Refusals with details, and how they travel: as google.rpc.Status in a call's trailer.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_ERRORS_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace strata::controller {

struct FieldViolation {
  std::string field;  // path of the job file, or of the request
  std::string description;
};

// `code` with ErrorInfo{reason} and a BadRequest of the violations; the message repeats them.
absl::Status RefuseFields(absl::StatusCode code, const std::string& reason,
                          const std::vector<FieldViolation>& violations);
// The same with RetryInfo.
absl::Status WithRetry(absl::Status status, double seconds);

// As gRPC sends it. Every failure gets an ErrorInfo (a reason of its code where it has none); what
// would not fit into a trailer (clients accept 8 KiB) is left out, and that is said.
grpc::Status ToGrpc(const absl::Status& status);

// "NOT_FOUND": the code's name, for metrics and reasons.
const char* CodeName(grpc::StatusCode code);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_ERRORS_H_
