// Which jobs a list or a request is about: a part of AIP-160, and orders as of AIP-132.
//
//   filter      = sequence { "AND" sequence }        sequence = factor { factor }
//   factor      = term { "OR" term }                 so OR binds more tightly than AND
//   term        = [ "NOT" | "-" ] ( comparison | "(" filter ")" )
//   comparison  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | ":" ) value
//
// Fields: name, state, owner, project (spec.project), queue (spec.resources.queue), priority
// (spec.resources.priority), create_time, spec.labels.KEY. What stands after spec.labels. is the
// key, with its dots; values may stand in double quotes, with \" and \\ for these two.
//   - state, texts: = and != compare; a text may begin or end with * (= "nlp-*"); `:` means that
//     the text contains the value.
//   - labels: likewise; `spec.labels.KEY:*` means that there is one of that key. A label that is
//     not there equals nothing (so != is true of it).
//   - priority, create_time (2026-11-23T07:00:00Z): also < <= > >=.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

inline constexpr size_t kMostFilterBytes = 4096;

using JobFilter = std::function<bool(const v1::JobRecord&)>;
using JobOrder = std::function<bool(const v1::JobRecord&, const v1::JobRecord&)>;  // before

// An empty filter takes all. InvalidArgument, of field `filter`: what is wrong, at which column.
absl::StatusOr<JobFilter> ParseFilter(absl::string_view filter);

// "create_time desc, name": fields name, state, priority, create_time, end_time, step. Jobs that
// are equal in it, and all of an empty one, come by name. InvalidArgument, of field `order_by`.
absl::StatusOr<JobOrder> ParseOrder(absl::string_view order_by);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_H_
