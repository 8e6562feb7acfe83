// Predicted seconds of a step where a rank map has the ranks: the closed form of
// planner/performance with the links that each group really crosses.
#ifndef STRATA_SCHEDULER_PLACEMENT_STEP_TIME_H_
#define STRATA_SCHEDULER_PLACEMENT_STEP_TIME_H_

#include <string>
#include <vector>

#include "planner/performance/machine.h"
#include "planner/search/job_choice.h"
#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// `machine` with the links of a rank map. A group goes at the pace of the slowest link that any of
// its kind crosses between neighbours in coordinate order, and has as many members next to each
// other in a domain as it has on average between two crossings. Links that the cluster does not
// describe stay the machine's.
planner::Machine OnRankMap(planner::Machine machine, const topology::Cluster& cluster,
                           const Shape& shape, const std::vector<planner::Dimension>& order,
                           const std::vector<Device>& ranks);

struct OrderTime {
  std::string order;  // "placed", "contiguous", "random", "hostname": see CompareOrders
  double seconds = 0;
};

// Of a step as placed, and of the same devices in other orders.
std::vector<OrderTime> StepTimes(const planner::JobChoice& choice, const topology::Cluster& cluster,
                                 const Shape& shape, const Placement& placement);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_STEP_TIME_H_
