// Which trainer this node starts.
#ifndef STRATA_WORKER_AGENT_TRAINER_BUILD_H_
#define STRATA_WORKER_AGENT_TRAINER_BUILD_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// The trainer's program: it stands beside this binary, so that both are of one build.
absl::StatusOr<std::string> TrainerBinary();

// Digest of that file, for Register.build; empty where it cannot be read, which starts will tell.
std::string TrainerBuild();

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINER_BUILD_H_
