// Which jobs a list or a request is about (filter_language.h), and orders as of AIP-132.
//
// Fields: the texts name, state, owner, project (spec.project), queue (spec.resources.queue) and
// spec.labels.KEY, where all behind spec.labels. is the key, with its dots; the numbers priority
// (spec.resources.priority) and create_time.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

using JobFilter = std::function<bool(const v1::JobRecord&)>;
using JobOrder = std::function<bool(const v1::JobRecord&, const v1::JobRecord&)>;  // before

// An empty filter takes all. InvalidArgument, of field `filter`: what is wrong, at which column.
absl::StatusOr<JobFilter> ParseFilter(absl::string_view filter);

// "create_time desc, name": fields name, state, priority, create_time, end_time, step. Jobs that
// are equal in it, and all of an empty one, come by name. InvalidArgument, of field `order_by`.
absl::StatusOr<JobOrder> ParseOrder(absl::string_view order_by);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_
