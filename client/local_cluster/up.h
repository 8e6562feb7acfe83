// `strata up`: from nothing, or from what is left, to a local cluster that is ready.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_UP_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_UP_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/local_cluster/cluster_folder.h"
#include "common/clock.h"

namespace strata::client {

struct UpOptions {
  std::string directory;                  // absolute
  std::optional<int> agents;              // else as before, else 1
  std::optional<LocalTopology> topology;  // else as before, else none
  std::optional<ServerAddress> listen;    // else as before, else the folder's own socket
  bool insecure_listen = false;           // as the controller's flag
  std::set<std::string> no_restart;       // nodes
  std::string binaries;                   // the folder of strata-controller and strata-worker
  std::string program;                    // this one's file, for the supervisor
  double ready_seconds = 45;              // given up after that
};

struct UpHooks {
  // Whether the controller answers and all nodes are ready; Unavailable says what is missing.
  // Should take no longer than about a second.
  std::function<absl::Status(const ClusterShape&)> probe;
  std::function<void(const std::string&)> say = [](const std::string&) {};
  // What is being waited for; several times a second.
  std::function<void(const std::string&)> waiting = [](const std::string&) {};
  // Whether to go on.
  std::function<bool()> go_on = [] { return true; };
};

struct UpResult {
  bool adopted = false;  // it ran already
  ClusterShape shape;
  Processes processes;
};

// Waits for a `down` or another `up` of the folder that is in progress. InvalidArgument: other
// machines would reach the address, and insecure_listen is not set; or agents and topology (of now
// or before) disagree. AlreadyExists: the port is in
// use. FailedPrecondition: what runs there differs from what is asked
// for. Unavailable: not ready in time. When it fails, nothing that it started is left.
absl::StatusOr<UpResult> BringUp(const UpOptions& options, const UpHooks& hooks,
                                 const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_UP_H_
