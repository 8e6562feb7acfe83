// What tells one build of this program from another: ranks must be of one.
#ifndef STRATA_WORKER_TRAINER_BUILD_MARK_H_
#define STRATA_WORKER_TRAINER_BUILD_MARK_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// The version and a digest of this process's executable, "0.1.0+6f3a…".
absl::StatusOr<std::string> BuildMark();

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_BUILD_MARK_H_
