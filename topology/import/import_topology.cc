#include "topology/import/import_topology.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "topology/import/fabric.h"
#include "topology/import/topology_file.h"

namespace strata::topology {
namespace {

constexpr const char* kFormats[] = {"topology", "kubernetes", "slurm", "slurm-yaml", "topograph"};

// Tells formats apart by what their lines begin with.
std::string FormatOf(absl::string_view text) {
  if (absl::StartsWith(text, "\xef\xbb\xbf")) text.remove_prefix(3);
  const bool json = absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
  const absl::string_view start = text.substr(0, 4096);
  const bool described =
      absl::StrContains(start, "\"levels\"") || absl::StrContains(start, "\"nodes\"");
  if (json && (absl::StrContains(start, "\"apiVersion\"") ||
               (absl::StrContains(text, "\"items\"") && !described))) {
    return "kubernetes";
  }
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const std::string lower = absl::AsciiStrToLower(line.substr(0, 20));
    for (const char* key : {"switchname=", "blockname=", "blocksizes="}) {
      if (absl::StartsWith(lower, key)) return "slurm";
    }
    if (absl::StartsWith(line, "- topology:")) return "slurm-yaml";
    if (absl::StartsWith(line, "apiVersion:")) return "kubernetes";  // told there to be no JSON
    for (absl::string_view key :
         {"switches:", "capacity_blocks:", "blocks:", "topology:", "\"switches\":"}) {
      if (absl::StartsWith(line, key)) return "topograph";
    }
    // The first line that says something, for all other files.
    if (!line.empty() && line[0] != '#' && !absl::StartsWith(line, "---") && line != "{") break;
  }
  return "topology";
}

}  // namespace

const LevelLabels& DefaultLabels() {
  static const auto& labels = *new LevelLabels{
      {"region", {"topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"}},
      {"zone", {"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}},
      {"tier2",
       {"fabric.topograph.run/tier-2", "network.topology.nvidia.com/datacenter",
        "topology.k8s.aws/network-node-layer-1"}},
      {"tier1",
       {"fabric.topograph.run/tier-1", "network.topology.nvidia.com/spine",
        "cloud.google.com/gce-topology-block", "topology.k8s.aws/network-node-layer-2",
        "oci.oraclecloud.com/host.network_block_id", "alibabacloud.com/point-of-delivery"}},
      {"tier0",
       {"fabric.topograph.run/tier-0", "network.topology.nvidia.com/block",
        "cloud.google.com/gce-topology-subblock", "topology.k8s.aws/network-node-layer-3",
        "oci.oraclecloud.com/host.rack_id", "alibabacloud.com/asw-id"}},
      {"domain",
       {"nvidia.com/gpu.clique", "accelerator.topograph.run/sub-domain",
        "accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator",
        "ds.coreweave.com/nvlink.domain"}},
  };
  return labels;
}

absl::StatusOr<LevelLabels> ParseLabels(const std::vector<std::string>& texts) {
  LevelLabels labels;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          text, ": a level and its labels are written zone=LABEL or zone=LABEL|LABEL"));
    }
    labels.push_back({text.substr(0, equals), absl::StrSplit(text.substr(equals + 1), '|')});
  }
  return labels;
}

absl::StatusOr<Description> ImportTopology(const std::string& file, absl::string_view text,
                                           const ImportOptions& options) {
  const std::string format = options.format.empty() ? FormatOf(text) : options.format;
  if (format == "topology") return ReadTopologyFile(text, file);
  if (format == "kubernetes") return ReadKubernetes(file, text, options);
  spec::Problems problems(file);
  Fabric fabric;
  if (format == "slurm") {
    ReadSlurmConf(text, fabric, problems);
  } else if (format == "slurm-yaml") {
    ReadSlurmYaml(text, fabric, problems);
  } else if (format == "topograph") {
    ReadTopograph(text, fabric, problems);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown format ", format, " — the formats are ",
                                                   absl::StrJoin(kFormats, ", ")));
  }
  Description description;
  if (problems.empty()) description = DescribeFabric(fabric, options, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  if (description.nodes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": there are no nodes in it"));
  }
  bool kinds_known = true;
  for (const Node& node : description.nodes) kinds_known = kinds_known && !node.kind.empty();
  if (!kinds_known || options.devices < 1 || options.devices > kMostDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": a file of this format (", format, ") says nothing about ",
        kinds_known
            ? "the number of devices — add --devices N, such as --devices 8"
            : "devices — add --device KIND --devices N, such as --device h100 --devices 8"));
  }
  return description;
}

}  // namespace strata::topology
