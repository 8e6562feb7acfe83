// Ends all processes of a local cluster.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_STOP_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_STOP_H_

#include <functional>

#include "absl/status/status.h"
#include "client/local_cluster/cluster_folder.h"
#include "common/clock.h"

namespace strata::client {

struct StopPatience {
  double supervisor_seconds = 20;  // which ends the others in its turn
  double each_seconds = 4;         // for an agent's answer, and after SIGTERM, before SIGKILL
  double trainers_seconds = 1;
};

// Controller, agents with their trainers (`strata-worker stop`), and what is left, in this order:
// what the controller has recorded of a job in progress stays as it is, and the next `up` goes on
// from there. Finds them in processes.json and by the mark in their environment, also those that
// nobody supervises; waits until they are gone. Call with no supervisor alive, or from the
// supervisor itself. Unknown: some did not end.
absl::Status StopMembers(const ClusterFolder& folder, const StopPatience& patience,
                         const common::Clock& clock);

// The supervisor first, however it is; then what it left. Waits for an `up` that is starting a
// supervisor, and keeps others from it. `on_wait` is called several times a second. True when
// anything was running.
absl::StatusOr<bool> StopCluster(const ClusterFolder& folder, const StopPatience& patience,
                                 const std::function<void()>& on_wait, const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_STOP_H_
