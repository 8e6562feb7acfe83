#include "scheduler/placement/step_time.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/performance/step_prediction.h"
#include "scheduler/placement/edge_counts.h"

namespace strata::scheduler {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using planner::GroupLinks;
using topology::Cluster;

int DomainDepth(const Cluster& cluster) {
  return std::min(cluster.domain_depth(), cluster.node_depth());
}

GroupLinks LinksOf(const Cluster& cluster, const Shape& shape, const RankMapCounts& counts,
                   Dimension dimension) {
  const auto d = static_cast<size_t>(dimension);
  GroupLinks links{.local = shape.degrees[d]};
  if (shape.degrees[d] == 1) return links;
  const EdgeCounts& edges = counts.edges[d];
  const bool ring = shape.traffic[d].pattern == EdgeTraffic::Pattern::kRing;
  int64_t all = 0, crossing = 0;
  for (int depth = 0; depth <= cluster.node_depth(); ++depth) {
    const int64_t here = edges.between[depth] + (ring ? edges.closing[depth] : 0);
    all += here;
    if (here == 0 || depth >= DomainDepth(cluster)) continue;
    crossing += here;
    if (!cluster.has_links()) continue;
    const topology::Link& link = cluster.LinkAt(depth);
    links.network_rate = links.network_rate == 0
                             ? link.bytes_per_second
                             : std::min(links.network_rate, link.bytes_per_second);
    links.latency_seconds = std::max(links.latency_seconds, link.latency_seconds);
  }
  if (crossing > 0) {
    links.local = std::clamp<int64_t>(all / crossing, 1, std::max<int64_t>(1, links.local - 1));
  }
  return links;
}

// Groups of `inner` ranks, as one group with the dimension around it.
GroupLinks Around(const GroupLinks& inner, int64_t inner_ranks, const GroupLinks& outer) {
  GroupLinks both = inner;
  if (inner.local == inner_ranks) both.local = inner_ranks * outer.local;
  if (inner.network_rate == 0 ||
      (outer.network_rate > 0 && outer.network_rate < inner.network_rate)) {
    both.network_rate = outer.network_rate;
  }
  both.latency_seconds = std::max(inner.latency_seconds, outer.latency_seconds);
  return both;
}

planner::Machine OnLinks(planner::Machine machine, const Cluster& cluster, const Shape& shape,
                         const RankMapCounts& counts) {
  const auto links = [&](Dimension dimension) {
    return LinksOf(cluster, shape, counts, dimension);
  };
  planner::RankMapLinks& map = machine.rank_map.emplace();
  map.tensor = links(Dimension::kTensor);
  map.context = links(Dimension::kContext);
  map.pipeline = links(Dimension::kPipeline);
  map.data = Around(map.context, shape.degrees[static_cast<size_t>(Dimension::kContext)],
                    links(Dimension::kData));
  map.replicas = links(Dimension::kReplicate);
  if (cluster.has_links()) {
    machine.network.domain_rate =
        cluster.LinkAt(cluster.AccountedDepth(cluster.node_depth())).bytes_per_second;
  }
  return machine;
}

}  // namespace

planner::Machine OnRankMap(planner::Machine machine, const Cluster& cluster, const Shape& shape,
                           const std::vector<Dimension>& order, const std::vector<Device>& ranks) {
  return OnLinks(std::move(machine), cluster, shape, CountsOf(cluster, shape, order, ranks));
}

std::vector<OrderTime> StepTimes(const planner::JobChoice& choice, const Cluster& cluster,
                                 const Shape& shape, const Placement& placement) {
  const auto time = [&](std::string order, const RankMapCounts& counts) {
    const planner::Machine machine = OnLinks(choice.machine, cluster, shape, counts);
    return OrderTime{std::move(order),
                     planner::PredictStep(machine, choice.shape, choice.layout).seconds};
  };
  std::vector<OrderTime> times = {
      time("placed", CountsOf(cluster, shape, placement.order, placement.ranks))};
  for (const OtherOrder& other : OtherOrders(cluster, shape, placement)) {
    times.push_back(time(other.name, CountsOf(cluster, shape, other.order, other.ranks)));
  }
  return times;
}

}  // namespace strata::scheduler
