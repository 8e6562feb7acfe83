// Switches and blocks by name, as Slurm and Topograph list them, made into levels.
#ifndef STRATA_TOPOLOGY_IMPORT_FABRIC_H_
#define STRATA_TOPOLOGY_IMPORT_FABRIC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "spec/problems.h"
#include "topology/cluster.h"
#include "topology/import/import_topology.h"

namespace strata::topology {

struct FabricGroup {  // a switch, or a block
  std::string name;
  std::vector<std::string> children;  // switches below it; of blocks: none
  std::vector<std::string> nodes;
  spec::Position position;
};

struct Fabric {
  std::vector<FabricGroup> switches;
  std::vector<FabricGroup> blocks;
  std::vector<int64_t> block_sizes;  // in nodes, the base first; may be empty
  spec::Position block_sizes_at;
  // By node, of those that the source lists: the kind of its devices, empty where it does not say.
  std::map<std::string, std::string> kinds;
};

// Problems: two of one name, unknown children, two parents, circles, nodes in two places, sizes
// that are no multiples. Nodes get options.devices, and options.device where no kind is named.
Description DescribeFabric(const Fabric& fabric, const ImportOptions& options,
                           spec::Problems& problems);

// Each fills a Fabric from its format; what is wrong is added to `problems`.
void ReadSlurmConf(absl::string_view text, Fabric& fabric, spec::Problems& problems);
void ReadSlurmYaml(absl::string_view text, Fabric& fabric, spec::Problems& problems);
void ReadTopograph(absl::string_view text, Fabric& fabric, spec::Problems& problems);

// Nodes from `kubectl get nodes -o json`.
absl::StatusOr<Description> ReadKubernetes(const std::string& file, absl::string_view text,
                                           const ImportOptions& options);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_IMPORT_FABRIC_H_
