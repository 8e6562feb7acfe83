// What ranks must agree on before they start: one plan (with one build), on each pipeline stage
// one set of programs, inside each group one sequence of collectives, and who exchanges messages
// with whom.
#ifndef STRATA_PROTOCOL_AGREEMENT_H_
#define STRATA_PROTOCOL_AGREEMENT_H_

#include <map>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::protocol {

// `prepared` by rank, all of 0 … size - 1. FailedPrecondition names the ranks that disagree, and
// the group. Linear in what was prepared.
absl::Status CheckAgreement(const std::map<int, v1::Prepared>& prepared);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_AGREEMENT_H_
