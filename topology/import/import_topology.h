// Clusters as other systems describe them.
//
//   topology    the topology file (topology_file.h)
//   kubernetes  `kubectl get nodes -o json`: levels from labels, devices from nvidia.com/gpu
//   slurm       topology.conf, trees and blocks
//   slurm-yaml  topology.yaml: the default topology in it, else the first that is not flat
//   topograph   NVIDIA Topograph's model of switches and capacity blocks; what it gives to Slurm
//               and Kubernetes is read as theirs
//
// Switches become levels tierN … tier0, outermost first, as deep as the tree is; a node directly
// below an outer switch lacks the inner ones. NVLink domains become the level "domain": where a
// source knows none, each node stands alone there, so that tensor groups stay inside nodes. Slurm's
// blocks are taken for NVLink domains, larger block sizes become levels around them.
#ifndef STRATA_TOPOLOGY_IMPORT_IMPORT_TOPOLOGY_H_
#define STRATA_TOPOLOGY_IMPORT_IMPORT_TOPOLOGY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "topology/cluster.h"

namespace strata::topology {

// A level and the labels that may name its value: the first that a node has.
using LevelLabels = std::vector<std::pair<std::string, std::vector<std::string>>>;
// Region, zone, three tiers (Topograph, clouds), domain; outermost first.
const LevelLabels& DefaultLabels();
// "zone=topology.kubernetes.io/zone|old/zone", …, outermost first.
absl::StatusOr<LevelLabels> ParseLabels(const std::vector<std::string>& texts);

struct ImportOptions {
  std::string format;  // of the above; empty: told from the text
  // Of nodes whose source says nothing about devices; devices 0: not given.
  std::string device;
  int devices = 0;
  LevelLabels labels = DefaultLabels();
};

// InvalidArgument with `file` and the place of each problem, as far as the format has them.
absl::StatusOr<Description> ImportTopology(const std::string& file, absl::string_view text,
                                           const ImportOptions& options = {});

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_IMPORT_IMPORT_TOPOLOGY_H_
