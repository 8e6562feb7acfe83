#include "scheduler/placement/validate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::scheduler {
namespace {

using planner::Degrees;
using planner::Dimension;
using planner::EdgeTraffic;
using topology::Cluster;

absl::Status Broken(const std::string& text) { return absl::FailedPreconditionError(text); }

class Validator {
 public:
  Validator(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
            const Placement& placement)
      : cluster_(cluster),
        occupancy_(occupancy),
        shape_(shape),
        placement_(placement),
        ranks_(static_cast<int64_t>(placement.ranks.size())) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(CheckDevices());
    RETURN_IF_ERROR(CheckTensorGroups());
    RETURN_IF_ERROR(CheckRuns());
    RETURN_IF_ERROR(CheckSplits());
    RETURN_IF_ERROR(CheckSpares());
    return CheckCost();
  }

 private:
  int64_t Degree(Dimension dimension) const {
    return shape_.degrees[static_cast<size_t>(dimension)];
  }
  const std::string& NameOf(int node) const { return cluster_.nodes()[node].name; }

  absl::Status CheckOrder() {
    const std::set<Dimension> named(placement_.order.begin(), placement_.order.end());
    if (placement_.order.size() != planner::kDimensions || named.size() != planner::kDimensions) {
      return Broken("order: not each dimension once");
    }
    int64_t product = 1;
    for (const Dimension dimension : placement_.order) {
      stride_[dimension] = product;
      product *= Degree(dimension);
    }
    if (ranks_ != product) {
      return Broken(absl::StrCat("ranks: there are ", ranks_, " of ", product));
    }
    return absl::OkStatus();
  }

  int64_t CoordinateOf(int64_t rank, Dimension dimension) const {
    return rank / stride_.at(dimension) % Degree(dimension);
  }

  absl::Status CheckDevices() const {
    const std::string& kind = placement_.kind;
    if (shape_.device == "gpu" ? kind == "cpu" : kind != shape_.device) {
      return Broken(absl::StrCat("kind: ", kind, " for a job that asks for ", shape_.device));
    }
    std::map<std::pair<int, int>, int64_t> taken;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const Device& at = placement_.ranks[rank];
      if (at.node < 0 || at.node >= static_cast<int>(cluster_.nodes().size())) {
        return Broken(absl::StrCat("rank ", rank, ": there is no node ", at.node));
      }
      const topology::Node& node = cluster_.nodes()[at.node];
      const std::string where = absl::StrCat("rank ", rank, " on ", node.name, ":", at.device);
      if (at.device < 0 || at.device >= node.devices) return Broken(where + ": no such device");
      if (node.kind != kind) return Broken(absl::StrCat(where, ": a ", node.kind, ", not ", kind));
      if ((occupancy_.free[at.node] >> at.device & 1) == 0) return Broken(where + ": not free");
      const auto [other, fresh] = taken.emplace(std::pair(at.node, at.device), rank);
      if (!fresh) return Broken(absl::StrCat(where, ": rank ", other->second, " is there too"));
    }
    return absl::OkStatus();
  }

  // Inside one domain each, a coordinate on one local index modulo the degree everywhere.
  absl::Status CheckTensorGroups() {
    const int64_t tensor = Degree(Dimension::kTensor);
    index_of_.assign(tensor, -1);
    std::map<int64_t, int64_t> first_of;  // a tensor group, by its rank of coordinate 0
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const Device& at = placement_.ranks[rank];
      const int64_t t = CoordinateOf(rank, Dimension::kTensor);
      const int64_t first = rank - t * stride_.at(Dimension::kTensor);
      const int node = placement_.ranks[first].node;
      if (cluster_.GroupOf(at.node, cluster_.domain_depth()) !=
          cluster_.GroupOf(node, cluster_.domain_depth())) {
        return Broken(absl::StrCat("ranks ", first, " and ", rank, " of one tensor group are on ",
                                   NameOf(node), " and ", NameOf(at.node),
                                   ", which share no domain"));
      }
      on_one_node_ &= at.node == node;
      const int64_t index = at.device % tensor;
      if (index_of_[t] < 0) index_of_[t] = index;
      if (index_of_[t] != index) {
        return Broken(absl::StrCat("rank ", rank, ": tensor coordinate ", t, " is on device ",
                                   at.device, " of ", NameOf(at.node), ", elsewhere on index ",
                                   index_of_[t], " modulo ", tensor));
      }
    }
    return absl::OkStatus();
  }

  // Tensor groups that the free devices of nodes [first, end) make together, by the local indices
  // that this job uses.
  int64_t GroupsFrom(int first, int end) const {
    const int64_t tensor = Degree(Dimension::kTensor);
    std::map<int64_t, int64_t> needed, free;
    for (const int64_t index : index_of_) ++needed[index];
    for (int node = first; node < end; ++node) {
      if (cluster_.nodes()[node].kind != placement_.kind) continue;
      for (int device = 0; device < cluster_.nodes()[node].devices; ++device) {
        if (occupancy_.free[node] >> device & 1) ++free[device % tensor];
      }
    }
    int64_t groups = INT64_MAX;
    for (const auto& [index, count] : needed) {
      const auto found = free.find(index);
      groups = std::min(groups, found == free.end() ? 0 : found->second / count);
    }
    return groups;
  }

  int64_t GroupsInZone(const topology::Group& zone) const {
    int64_t groups = 0;
    for (int node = zone.first_node; node < zone.end_node;) {
      const int domain = cluster_.GroupOf(node, cluster_.domain_depth());
      const int end = on_one_node_ ? node + 1 : cluster_.groups()[domain].end_node;
      groups += GroupsFrom(node, end);
      node = end;
    }
    return groups;
  }

  // Split groups along `dimension`, by their first tensor group.
  int64_t CountSplit(Dimension dimension) const {
    if (Degree(dimension) == 1) return 0;
    std::map<int64_t, std::set<int>> zones;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const int64_t base = rank - CoordinateOf(rank, dimension) * stride_.at(dimension) -
                           CoordinateOf(rank, Dimension::kTensor) * stride_.at(Dimension::kTensor);
      zones[base].insert(cluster_.GroupOf(placement_.ranks[rank].node, cluster_.pipeline_depth()));
    }
    int64_t split = 0;
    for (const auto& [base, across] : zones) split += across.size() > 1;
    return split;
  }

  // Ranks of one run have the same values of the level and of all outer ones.
  absl::Status CheckRuns() const {
    if (shape_.topology.empty()) return absl::OkStatus();
    int64_t product = 1;
    for (const Dimension dimension : planner::kAllDimensions) {
      if (stride_.at(dimension) != product) return Broken("order: not the canonical one");
      product *= Degree(dimension);
    }
    for (const TopologyConstraint& constraint : shape_.topology) {
      if (constraint.preferred) continue;
      const auto& levels = cluster_.levels();
      const auto last = std::find(levels.begin(), levels.end(), constraint.within) - levels.begin();
      for (int64_t rank = 0; rank < ranks_; ++rank) {
        const int64_t first = rank / constraint.ranks * constraint.ranks;
        const int a = placement_.ranks[first].node, b = placement_.ranks[rank].node;
        const bool same = constraint.within == "node"
                              ? a == b
                              : cluster_.GroupOf(a, static_cast<int>(last) + 1) ==
                                    cluster_.GroupOf(b, static_cast<int>(last) + 1);
        if (same) continue;
        return Broken(absl::StrCat("ranks ", first, " and ", rank, " of one run of ",
                                   constraint.ranks, " are on ", NameOf(a), " and ", NameOf(b),
                                   ", which share no ", constraint.within));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSplits() const {
    const int64_t pipelines = ranks_ / (Degree(Dimension::kTensor) * Degree(Dimension::kPipeline));
    int64_t whole = 0;
    for (const topology::Group& group : cluster_.groups()) {
      if (group.depth == cluster_.pipeline_depth()) {
        whole += GroupsInZone(group) / Degree(Dimension::kPipeline);
      }
    }
    const int64_t split = CountSplit(Dimension::kPipeline);
    if (shape_.topology.empty() && split > std::max<int64_t>(0, pipelines - whole)) {
      return Broken(absl::StrCat(split, " of ", pipelines, " pipelines are split, although ", whole,
                                 " whole ones fit"));
    }
    if (split != placement_.cost.split_pipelines ||
        CountSplit(Dimension::kContext) != placement_.cost.split_contexts) {
      return Broken(absl::StrCat("cost: ", split, " pipelines and ",
                                 CountSplit(Dimension::kContext), " context groups are split"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSpares() const {
    std::set<int> used;
    for (const Device& device : placement_.ranks) used.insert(device.node);
    if (static_cast<int64_t>(placement_.spares.size()) > shape_.spares) {
      return Broken("spares: more than were asked for");
    }
    for (const int spare : placement_.spares) {
      if (spare < 0 || spare >= static_cast<int>(cluster_.nodes().size())) {
        return Broken(absl::StrCat("spares: there is no node ", spare));
      }
      const topology::Node& node = cluster_.nodes()[spare];
      if (!used.insert(spare).second) return Broken(node.name + ": a spare that is used or twice");
      if (node.kind != placement_.kind) return Broken(node.name + ": a spare of another kind");
      if (std::popcount(occupancy_.free[spare]) != node.devices || node.devices == 0) {
        return Broken(node.name + ": a spare that is not wholly free");
      }
    }
    return absl::OkStatus();
  }

  // One directed edge from `rank` to `to`.
  void Send(int64_t rank, int64_t to, double bytes, const EdgeTraffic& edge, double& slowest) {
    if (bytes == 0 && edge.messages == 0) return;
    const int depth = cluster_.MeetingDepth(placement_.ranks[rank].node, placement_.ranks[to].node);
    bytes_[cluster_.AccountedDepth(depth)] += bytes;
    const double peers =
        edge.pattern == EdgeTraffic::Pattern::kPairs
            ? static_cast<double>(shape_.degrees[&edge - shape_.traffic.data()] - 1)
            : 1;
    const topology::Link& link = cluster_.LinkAt(depth);
    slowest = std::max(
        slowest, peers * bytes / link.bytes_per_second + edge.messages * link.latency_seconds);
  }

  void CountDimension(Dimension dimension) {
    const EdgeTraffic& edge = shape_.traffic[static_cast<size_t>(dimension)];
    const int64_t degree = Degree(dimension);
    const int64_t stride = stride_.at(dimension);
    double slowest = 0;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const int64_t at = CoordinateOf(rank, dimension);
      const int64_t first = rank - at * stride;
      const auto member = [&](int64_t i) { return first + i * stride; };
      if (edge.pattern == EdgeTraffic::Pattern::kPairs) {
        for (int64_t i = 0; i < degree; ++i) {
          if (i != at) Send(rank, member(i), edge.next_bytes, edge, slowest);
        }
        continue;
      }
      if (at + 1 < degree) Send(rank, member(at + 1), edge.next_bytes, edge, slowest);
      if (at > 0) Send(rank, member(at - 1), edge.previous_bytes, edge, slowest);
      if (edge.pattern != EdgeTraffic::Pattern::kRing || edge.closing == 0) continue;
      if (at + 1 == degree) Send(rank, first, edge.closing * edge.next_bytes, edge, slowest);
      if (at == 0) {
        Send(rank, member(degree - 1), edge.closing * edge.previous_bytes, edge, slowest);
      }
    }
    seconds_ += edge.exposed * slowest;
  }

  absl::Status CheckCost() {
    bytes_.assign(static_cast<size_t>(cluster_.node_depth()) + 1, 0);
    for (const Dimension dimension : planner::kAllDimensions) {
      if (Degree(dimension) > 1) CountDimension(dimension);
    }
    if (placement_.cost.bytes.size() != bytes_.size()) return Broken("cost: bytes of wrong size");
    double all = 0;
    for (const double bytes : bytes_) all += bytes;
    for (size_t depth = 0; depth < bytes_.size(); ++depth) {
      if (std::abs(bytes_[depth] - placement_.cost.bytes[depth]) > 1e-9 * all) {
        return Broken(absl::StrCat("cost: ", placement_.cost.bytes[depth], " bytes at ",
                                   cluster_.DepthName(static_cast<int>(depth)), ", counted ",
                                   bytes_[depth]));
      }
    }
    if (std::abs(seconds_ - placement_.cost.exposed_seconds) > 1e-9 * seconds_) {
      return Broken(absl::StrCat("cost: ", placement_.cost.exposed_seconds,
                                 " exposed seconds, counted ", seconds_));
    }
    return absl::OkStatus();
  }

  const Cluster& cluster_;
  const Occupancy& occupancy_;
  const Shape& shape_;
  const Placement& placement_;
  const int64_t ranks_;
  std::map<Dimension, int64_t> stride_;
  std::vector<int64_t> index_of_;  // by tensor coordinate: local index modulo the degree
  bool on_one_node_ = true;        // every tensor group
  std::vector<double> bytes_;
  double seconds_ = 0;
};

}  // namespace

absl::Status Validate(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
                      const Placement& placement) {
  return Validator(cluster, occupancy, shape, placement).Run();
}

}  // namespace strata::scheduler
