// The folder of a local cluster: what it consists of, and which processes it has now.
//
//   cluster.json       its shape; written by `up`
//   topology.yaml      the map that `up --topology` was given, if it was
//   processes.json     who runs, by pid and start time, and of which folder; written by the
//   supervisor supervisor.lock    locked by the supervisor as long as it lives change.lock locked
//   by whoever starts or ends the cluster, while it does controller/        the controller's state
//   nodes/nK/          the agents' state
//   controller.sock    where the controller listens, unless it was told otherwise
//   log/               what each of them says
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_FOLDER_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_FOLDER_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/local_cluster/cluster_nodes.h"
#include "client/local_cluster/process_id.h"
#include "client/server_address.h"

namespace strata::client {

// In the environment of every process of the cluster, with its folder as value.
inline constexpr char kClusterVariable[] = "STRATA_CLUSTER_DIR";

struct ClusterShape {
  std::vector<ClusterNode> nodes;
  bool has_topology = false;  // the controller reads topology.yaml
  ServerAddress listen;
  bool own_socket = false;  // `listen` is ClusterFolder::SocketPath
  ServerAddress metrics;
  std::set<std::string> no_restart;  // nodes whose agents stay dead
  int threads_per_agent = 1;         // of each of its devices
  bool insecure_listen = false;      // the controller may listen where other machines reach it
  std::string binaries;              // the folder of strata-controller and strata-worker
};

struct RunningProcess {
  ProcessId id;
  int restarts = 0;  // since the supervisor began
  bool operator==(const RunningProcess& other) const = default;
};

// By name: "supervisor", "controller", "n0", …
using Processes = std::map<std::string, RunningProcess>;

class ClusterFolder {
 public:
  // `path` is absolute.
  explicit ClusterFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string LogOf(const std::string& name) const { return path_ + "/log/" + name + ".log"; }
  std::string NodeFolder(const std::string& node) const { return path_ + "/nodes/" + node; }
  std::string ControllerFolder() const { return path_ + "/controller"; }
  // Where the controller listens unless it is told otherwise: DIR/controller.sock; below
  // /tmp/strata-UID, which only this user may enter, where DIR's path is too long for a socket's.
  // FailedPrecondition: that folder is not this user's alone.
  absl::StatusOr<std::string> SocketPath() const;
  // NAME=VALUE of kClusterVariable.
  std::string Mark() const;

  // The folders above. InvalidArgument: they cannot be made.
  absl::Status Make(const std::vector<ClusterNode>& nodes) const;

  std::string TopologyFile() const { return path_ + "/topology.yaml"; }
  absl::Status WriteTopology(const std::string& text) const;

  // NotFound: no cluster was ever started here. DataLoss: not readable as one.
  absl::StatusOr<ClusterShape> ReadShape() const;
  absl::Status WriteShape(const ClusterShape& shape) const;

  // What processes.json lists; those that have ended have the pid 0. Empty in a copy of another
  // cluster's folder: what its file lists is not its own.
  Processes ReadProcesses() const;
  // `stopping`: they are being ended.
  absl::Status WriteProcesses(const Processes& processes, bool stopping = false) const;
  // The folder that this one was copied from, if processes of that cluster still run; else empty.
  std::string RunningOriginal() const;
  // The supervisor lives, and ends everything.
  bool IsStopping() const;

  // A descriptor that holds the supervisor's lock. AlreadyExists: another process holds it.
  absl::StatusOr<int> Lock() const;
  bool HasSupervisor() const;
  // The same of change.lock. Creates nothing but this file.
  absl::StatusOr<int> LockChanges() const;
  // Whether a cluster was started here, however its description is by now.
  bool IsCluster() const;

 private:
  std::string path_;
};

// The last lines of a log, at most `lines`, each indented.
std::string TailOf(const std::string& file, int lines);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_FOLDER_H_
