// RETURN_IF_ERROR and ASSIGN_OR_RETURN: early return of absl::Status and absl::StatusOr.
//
//   RETURN_IF_ERROR(file.Sync());
//   ASSIGN_OR_RETURN(const Layout layout, LayOut(program));
#ifndef STRATA_COMMON_STATUS_MACROS_H_
#define STRATA_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define STRATA_CONCAT_INNER_(a, b) a##b
#define STRATA_CONCAT_(a, b) STRATA_CONCAT_INNER_(a, b)

#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expression) \
  STRATA_ASSIGN_OR_RETURN_(STRATA_CONCAT_(status_or_, __LINE__), lhs, expression)
#define STRATA_ASSIGN_OR_RETURN_(result, lhs, expression) \
  auto result = (expression);                             \
  if (!result.ok()) return std::move(result).status();    \
  lhs = *std::move(result)

#endif  // STRATA_COMMON_STATUS_MACROS_H_
