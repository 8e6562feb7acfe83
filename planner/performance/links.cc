#include "planner/performance/links.h"

#include <algorithm>
#include <cmath>

namespace strata::planner {
namespace {

// NCCL 2.30, src/graph/tuning.cc, in seconds; the bandwidth is a share of the link's.
struct Protocol {
  double ring_base, ring_domain_hop, ring_network_hop;
  double tree_base, tree_domain_hop, tree_network_hop;
  double bandwidth;
};
constexpr Protocol kProtocols[] = {
    {6.6e-6, 0.6e-6, 2.7e-6, 6.8e-6, 0.6e-6, 5e-6, 0.25},  // LL, capped further on fast links
    {14e-6, 1.9e-6, 4e-6, 14e-6, 1.25e-6, 8.5e-6, 0.92},   // LL128
    {6.6e-6, 3.4e-6, 14e-6, 8.4e-6, 4e-6, 14e-6, 1.0},     // Simple
};
constexpr double kTreeBandwidth = 0.92 * 0.85;

double NetworkRate(const Machine& machine, const GroupShape& group) {
  const Network& network = machine.network;
  return (group.network_rate > 0 ? group.network_rate
                                 : network.network_rate * network.network_efficiency) *
         machine.calibration.communication;
}

double NetworkHop(const Protocol& protocol, const GroupShape& group) {
  return std::max(protocol.ring_network_hop, group.latency_seconds);
}

}  // namespace

GroupShape GroupOf(const Machine& machine, GroupLinks RankMapLinks::*kind, int64_t ranks,
                   int64_t stride) {
  if (machine.rank_map.has_value()) {
    const GroupLinks& links = *machine.rank_map.*kind;
    return {ranks, std::clamp<int64_t>(links.local, 1, ranks), links.network_rate,
            links.latency_seconds};
  }
  return {ranks, std::clamp<int64_t>(machine.network.domain_devices / stride, 1, ranks)};
}

double CollectiveSeconds(const Machine& machine, Collective collective, GroupShape group,
                         double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const Network& network = machine.network;
  const double ranks = static_cast<double>(group.ranks), local = static_cast<double>(group.local);
  const double domains = std::ceil(ranks / local);
  const double scale = machine.calibration.communication;
  const double domain_rate = network.domain_rate * network.domain_efficiency * scale;
  const double network_rate = NetworkRate(machine, group);
  if (collective == Collective::kAllToAll) {
    const double outside = (ranks - local) / ranks, inside = (local - 1) / ranks;
    return kProtocols[2].ring_base + domains * NetworkHop(kProtocols[2], group) +
           std::max(bytes * inside / domain_rate, bytes * outside / network_rate);
  }
  const double ring_rate = domains > 1 ? std::min(domain_rate, network_rate * local) : domain_rate;
  const double rounds = collective == Collective::kAllReduce ? 2 : 1;
  const double domain_steps = rounds * (ranks - domains), network_steps = rounds * (domains - 1);
  double best = 1e30;
  for (const Protocol& protocol : kProtocols) {
    const double wire = rounds * bytes * (ranks - 1) / ranks / (ring_rate * protocol.bandwidth);
    best = std::min(best, protocol.ring_base + domain_steps * protocol.ring_domain_hop +
                              network_steps * NetworkHop(protocol, group) + wire);
    if (collective != Collective::kAllReduce) continue;
    const double tree =
        protocol.tree_base +
        2 * ((local - 1) * protocol.tree_domain_hop +
             std::log2(domains) * std::max(protocol.tree_network_hop, group.latency_seconds));
    best = std::min(best, tree + wire / kTreeBandwidth);
  }
  return best;
}

double MessageSeconds(const Machine& machine, GroupShape group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const Network& network = machine.network;
  const bool inside = group.local >= group.ranks;
  const double rate =
      inside ? network.domain_rate * network.domain_efficiency * machine.calibration.communication
             : NetworkRate(machine, group);
  return kProtocols[2].ring_base +
         (inside ? kProtocols[2].ring_domain_hop : NetworkHop(kProtocols[2], group)) + bytes / rate;
}

}  // namespace strata::planner
