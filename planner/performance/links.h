// Seconds of collectives and messages, by the latency and bandwidth of the levels they cross.
#ifndef STRATA_PLANNER_PERFORMANCE_LINKS_H_
#define STRATA_PLANNER_PERFORMANCE_LINKS_H_

#include <cstdint>

#include "planner/performance/machine.h"

namespace strata::planner {

// Compute and communication side by side share processors and memory: the part of their common time
// that is lost (arXiv:2504.09307 and the Echo simulator measure 1.1 to 1.2).
inline constexpr double kContention = 0.1;

// The members of a group: `ranks` in all, `local` of them inside each NVLink domain.
struct GroupShape {
  int64_t ranks = 1;
  int64_t local = 1;
  double network_rate = 0;     // of its slowest link beyond the domain; 0: the network's
  double latency_seconds = 0;  // of a hop there, at least
};

// Members `stride` ranks apart, ranks filling domains in order; or where the machine's rank map has
// the groups of this kind (&RankMapLinks::data).
GroupShape GroupOf(const Machine& machine, GroupLinks RankMapLinks::*kind, int64_t ranks,
                   int64_t stride);

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

// `bytes` of the whole vector (all-to-all: what one member sends). The fastest algorithm and
// protocol, as NCCL's tuner chooses (NCCL 2.30, src/graph/tuning.cc): latency of the steps plus
// bytes by the slowest link of the ring or tree. A group with several members per domain drives as
// many network cards.
double CollectiveSeconds(const Machine& machine, Collective collective, GroupShape group,
                         double bytes);

// One message between neighbours of a group.
double MessageSeconds(const Machine& machine, GroupShape group, double bytes);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_LINKS_H_
