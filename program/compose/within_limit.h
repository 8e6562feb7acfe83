// How many layers are resident where only a limit of the device's arena is given.
#ifndef STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_
#define STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_

#include <functional>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "program/compose/plan.h"

namespace strata::program {

// Streaming::resident: as many of `layers` as fit, but one less than all (which the device would
// hold as well without streaming); where not even one does, what a single use needs. Errors: those
// of `fits`.
inline absl::StatusOr<int> MostResident(
    int layers, const std::function<absl::StatusOr<bool>(int resident)>& fits) {
  ASSIGN_OR_RETURN(bool fit, fits(Streaming::kAllButOne));
  if (fit) return Streaming::kAllButOne;
  ASSIGN_OR_RETURN(fit, fits(1));
  if (!fit) return Streaming::kOneUse;
  int least = 1, most = layers;
  while (most - least > 1) {
    const int middle = least + (most - least) / 2;
    ASSIGN_OR_RETURN(fit, fits(middle));
    (fit ? least : most) = middle;
  }
  return least;
}

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_
