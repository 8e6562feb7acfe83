// A flag that says something wrong.
#ifndef STRATA_CLIENT_PLANNING_FLAG_ERROR_H_
#define STRATA_CLIENT_PLANNING_FLAG_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace strata::client {

// InvalidArgument, "FLAG: what is wrong — what to do", as a line.
inline absl::Status FlagError(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", what, "\n"));
}

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_FLAG_ERROR_H_
