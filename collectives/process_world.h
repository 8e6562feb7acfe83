// Worlds of forked processes on this machine, for tests and benchmarks.
#ifndef STRATA_COLLECTIVES_PROCESS_WORLD_H_
#define STRATA_COLLECTIVES_PROCESS_WORLD_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/process_endpoint.h"

namespace strata::collectives {

using Knows = std::function<bool(int rank, int other)>;

struct ProcessWorld {
  unsigned most_seconds = 60;                  // then the kernel ends a process still there
  std::function<WorldKey(int rank)> key = {};  // what each believes to be the world's; null: one
  Knows knows = {};                            // whether it is told another's address; null: it is
  bool cancels = true;                         // see below
};

// Runs `body` in a process for each rank, forked from this one (which must have opened no UCX and
// run no other thread), and returns what each returned: kUnknown "died" for one that did not. When
// one fails or dies, the others are cancelled with kAborted (`cancels`), as an agent would. A rank
// that is done stays connected until all are.
std::vector<absl::Status> RunInProcesses(const ProcessOptions& options, int size,
                                         const std::function<absl::Status(Communicator&)>& body,
                                         const ProcessWorld& world);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_PROCESS_WORLD_H_
