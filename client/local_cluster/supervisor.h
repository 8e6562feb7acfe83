// The process that keeps a local cluster's controller and agents running. It survives the terminal
// that started it; they survive it, and the next supervisor of the folder adopts them.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_SUPERVISOR_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_SUPERVISOR_H_

#include <string>

#include "common/clock.h"

namespace strata::client {

// Runs until SIGTERM or SIGINT, then ends all members. `directory` is absolute and has a cluster's
// shape. Returns an exit code; says what happens, with times, on stderr. Call from a process with
// one thread.
int RunSupervisor(const std::string& directory, const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_SUPERVISOR_H_
