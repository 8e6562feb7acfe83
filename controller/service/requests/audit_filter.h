// Which audit records are listed (filter_language.h).
//
// Fields: the texts identity, method, resource and outcome, and time.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_AUDIT_FILTER_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_AUDIT_FILTER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/access.pb.h"

namespace strata::controller {

using AuditFilter = std::function<bool(const v1::AuditRecord&)>;

// An empty filter takes all. InvalidArgument, of field `filter`: what is wrong, at which column.
absl::StatusOr<AuditFilter> ParseAuditFilter(absl::string_view filter);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_AUDIT_FILTER_H_
