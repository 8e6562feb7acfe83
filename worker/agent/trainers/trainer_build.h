// Which trainer this node starts.
#ifndef STRATA_WORKER_AGENT_TRAINERS_TRAINER_BUILD_H_
#define STRATA_WORKER_AGENT_TRAINERS_TRAINER_BUILD_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// The trainer's program as it stood beside this binary when this was first asked, so that both are
// of one build: it stays open, and whatever takes its name later (an upgrade renames files into
// place) is not started by this process.
struct TrainerProgram {
  std::string path;        // what it was called
  std::string executable;  // what to execute: it opens the same file in a child of this process
  std::string build;       // digest of the file, for Register.build
};

// For jobs on a device: the CPU's, or one that is linked with CUDA, or, where the environment has
// STRATA_GPU_STANDIN, with a stand-in of CUDA that runs kernels on the CPU, to prove them. From any
// thread. NotFound: there is none; asked again, it may have come.
absl::StatusOr<TrainerProgram> PinnedTrainer(const std::string& device = "cpu");

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_TRAINER_BUILD_H_
