// What ranks must agree on before they start: one plan (with one build), on each pipeline stage
// one set of programs, and inside each group one sequence of collectives.
#ifndef STRATA_WORKER_AGENT_AGREEMENT_H_
#define STRATA_WORKER_AGENT_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// `prepared` by rank. FailedPrecondition names the ranks that disagree; InvalidArgument: a rank
// lists a group that it is no member of, or with ranks that do not exist.
absl::Status CheckAgreement(const std::string& plan_digest,
                            const std::vector<v1::Prepared>& prepared);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_AGREEMENT_H_
