// The nodes of a local cluster: those of a topology file, or n0, n1, ….
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_NODES_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_NODES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::client {

struct ClusterNode {
  std::string name;
  int devices = 1;
  std::map<std::string, std::string> locality;  // level -> value
  bool operator==(const ClusterNode& other) const = default;
};

// n0, n1, … of one device each: one domain, as they share this machine's memory.
std::vector<ClusterNode> PlainNodes(int count);

struct LocalTopology {
  std::string file;  // as the user wrote it
  std::string text;
  std::vector<ClusterNode> nodes;
  std::string notice;  // what of the file means nothing here; may be empty
};

// Reads a topology file whose nodes this machine can play. InvalidArgument: what is wrong with the
// file, or which nodes cannot be processes of this machine (their devices are no CPUs, …).
absl::StatusOr<LocalTopology> ReadLocalTopology(const std::string& file);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_CLUSTER_NODES_H_
