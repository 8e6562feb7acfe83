// Errors as clients get them: a status with google.rpc details as payloads, under the type URLs
// that gRPC's own conversions use. Services copy the payloads into the trailer.
#ifndef STRATA_CONTROLLER_LOGIC_REFUSAL_H_
#define STRATA_CONTROLLER_LOGIC_REFUSAL_H_

#include <string>

#include "absl/status/status.h"

namespace strata::controller {

inline constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
inline constexpr char kQuotaFailureUrl[] = "type.googleapis.com/google.rpc.QuotaFailure";
inline constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";

// With ErrorInfo{reason, domain "strata"}. `reason` is UPPER_SNAKE.
absl::Status Refusal(absl::StatusCode code, const std::string& reason, const std::string& message);
// INVALID_ARGUMENT with reason INVALID_FIELD and one field violation.
absl::Status InvalidField(const std::string& field, const std::string& what);
// Adds a field violation to a refusal that has none.
void SetField(absl::Status& status, const std::string& field, const std::string& what);

// Says of what there is too much; `subject`: projects/NAME, users/NAME.
void SetQuota(absl::Status& status, const std::string& subject, const std::string& what);

// The reason of a refusal's ErrorInfo; empty where there is none.
std::string ReasonOf(const absl::Status& status);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_REFUSAL_H_
