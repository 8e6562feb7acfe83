// Worlds of forked processes on this machine, for tests and benchmarks of the ucx backend.
#ifndef STRATA_COLLECTIVES_PROCESS_WORLD_H_
#define STRATA_COLLECTIVES_PROCESS_WORLD_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/ucx_communicator.h"

namespace strata::collectives {

using Knows = std::function<bool(int rank, int other)>;

// Runs `body` in a process for each rank, forked from this one (which must have opened no UCX and
// run no other thread), and returns what each returned: kUnknown "died" for one that did not. When
// one fails or dies, the others are cancelled with kAborted. A rank that is done stays connected
// until all are. A process still there after `most_seconds` is ended by the kernel. `key`: what
// each rank believes to be the world's; null: the same for all. `knows`: whether a rank is told
// another one's address; null: it is.
std::vector<absl::Status> RunInProcesses(const UcxOptions& options, int size,
                                         const std::function<absl::Status(Communicator&)>& body,
                                         unsigned most_seconds,
                                         const std::function<WorldKey(int rank)>& key = nullptr,
                                         const Knows& knows = nullptr);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_PROCESS_WORLD_H_
