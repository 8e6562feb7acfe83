#include "client/commands/map_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "topology/import/import_topology.h"
#include "topology/import/topology_file.h"

namespace strata::client {

std::vector<Flag> MapFileFlags(const std::string& help_of_devices) {
  using Kind = Flag::Kind;
  Flag label = {"--label", Kind::kText, "LEVEL=LABEL",
                "a level and its Kubernetes labels (LABEL|LABEL: the first there is), outermost "
                "first; repeatable"};
  label.repeated = true;
  return {
      {"--format", Kind::kText, "FORMAT",
       "topology, kubernetes, slurm, slurm-yaml or topograph (default: told from the file)"},
      {"--device", Kind::kText, "KIND", "kind of devices, where the file says nothing about them"},
      {"--devices", Kind::kCount, "N", help_of_devices, "", 1, topology::kMostDevices},
      label,
  };
}

absl::StatusOr<topology::Cluster> ReadMapFile(const std::string& path, const Arguments& arguments) {
  topology::ImportOptions options;
  options.format = arguments.Text("--format");
  options.device = arguments.Text("--device");
  options.devices = static_cast<int>(arguments.Count("--devices").value_or(0));
  if (arguments.Has("--label")) {
    ASSIGN_OR_RETURN(options.labels, topology::ParseLabels(arguments.All("--label")));
  }
  ASSIGN_OR_RETURN(const std::string text, topology::ReadTopologyText(path));
  ASSIGN_OR_RETURN(topology::Description description,
                   topology::ImportTopology(path, text, options));
  absl::StatusOr<topology::Cluster> cluster = topology::Cluster::Make(std::move(description));
  if (cluster.ok()) return cluster;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", cluster.status().message()));
}

}  // namespace strata::client
