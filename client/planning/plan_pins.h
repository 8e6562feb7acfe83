// What --pin decides of a plan.
#ifndef STRATA_CLIENT_PLANNING_PLAN_PINS_H_
#define STRATA_CLIENT_PLANNING_PLAN_PINS_H_

#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "planner/search/search.h"

namespace strata::client {

// InvalidArgument: a key or a value that is none, or two that exclude each other.
absl::StatusOr<planner::Pins> PinsOf(const Arguments& arguments);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_PLAN_PINS_H_
