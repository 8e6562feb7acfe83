#include "planner/search/network_of_cluster.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

int64_t FreeOf(const topology::Node& node, const std::string& kind) {
  return node.healthy && node.kind == kind ? static_cast<int64_t>(node.free.size()) : 0;
}

// The most devices of the kind that one group of a depth has.
int64_t MostAt(const topology::Cluster& cluster, const std::string& kind, int depth) {
  std::map<int, int64_t> found;
  int64_t most = 0;
  for (int n = 0; n < static_cast<int>(cluster.nodes().size()); ++n) {
    const int64_t free = FreeOf(cluster.nodes()[n], kind);
    const int group = depth == cluster.node_depth() ? n : cluster.GroupOf(n, depth);
    most = std::max(most, found[group] += free);
  }
  return most;
}

}  // namespace

absl::StatusOr<ClusterPart> PartOf(const topology::Cluster& cluster, const std::string& kind,
                                   int64_t devices, const Network& base) {
  std::map<std::string, int64_t> kinds;
  for (const topology::Node& node : cluster.nodes()) {
    const int64_t free = FreeOf(node, node.kind);
    if (free > 0) kinds[node.kind] += free;
  }
  std::string known;
  for (const auto& [name, count] : kinds) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", count, " ", name);
  }
  if (known.empty()) return absl::NotFoundError("the cluster has no free devices");
  ClusterPart part{.kind = kind, .devices = devices, .network = base};
  if (part.kind.empty()) {
    if (kinds.size() > 1) {
      return absl::NotFoundError(
          absl::StrCat("the cluster has several kinds of devices: ", known, " — name one"));
    }
    part.kind = kinds.begin()->first;
  }
  const auto found = kinds.find(part.kind);
  if (found == kinds.end()) {
    return absl::NotFoundError(absl::StrCat("the cluster has no ", part.kind, ", only ", known));
  }
  if (part.devices == 0) part.devices = found->second;
  if (part.devices > found->second) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has ", known, ", not ", part.devices, " ", part.kind));
  }
  part.network.node_devices =
      std::max<int64_t>(1, MostAt(cluster, part.kind, cluster.node_depth()));
  const int domain = std::min(cluster.domain_depth(), cluster.node_depth());
  part.network.domain_devices =
      std::max(part.network.node_devices, MostAt(cluster, part.kind, domain));
  const topology::Link& inside = cluster.LinkAt(cluster.AccountedDepth(cluster.node_depth()));
  part.network.domain_rate = inside.bytes_per_second;
  // From the domain outwards until so many are found; every level on the way is crossed.
  double rate = 0;
  part.widest = cluster.DepthName(domain);
  for (int depth = domain; depth >= 0; --depth) {
    if (depth < domain) {
      const double link = cluster.LinkAt(depth).bytes_per_second;
      rate = rate == 0 ? link : std::min(rate, link);
      part.widest = cluster.DepthName(depth);
    }
    if (MostAt(cluster, part.kind, depth) >= part.devices) break;
  }
  if (rate > 0) part.network.network_rate = rate;
  // What a description says is what arrives.
  part.network.network_efficiency = rate > 0 ? 1 : base.network_efficiency;
  return part;
}

}  // namespace strata::planner
