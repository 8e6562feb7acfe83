// What ranks must agree on before they start: one plan (with one build), on each pipeline stage
// one set of programs, and inside each group one sequence of collectives.
#ifndef STRATA_CONTROLLER_LOGIC_AGREEMENT_H_
#define STRATA_CONTROLLER_LOGIC_AGREEMENT_H_

#include <map>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::controller {

// `prepared` by rank, all of 0 … size - 1. FailedPrecondition names the ranks that disagree, and
// the group.
absl::Status CheckAgreement(const std::map<int, v1::Prepared>& prepared);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_AGREEMENT_H_
