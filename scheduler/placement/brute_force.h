// Placement by trying everything: for tests, on clusters of a few devices.
#ifndef STRATA_SCHEDULER_PLACEMENT_BRUTE_FORCE_H_
#define STRATA_SCHEDULER_PLACEMENT_BRUTE_FORCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Split pipelines, split context groups, bytes by accounted depth.
using LeastCost = std::vector<double>;

// The least cost of all rank maps that obey the rules, by the largest chunk (cells.h) that has any;
// nothing: there is none. Shares no code with what it checks. Of devices it only leaves out that
// equal ones of one node may be exchanged.
std::optional<LeastCost> LeastCostOf(const topology::Cluster& cluster, const Occupancy& occupancy,
                                     const Shape& shape);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_BRUTE_FORCE_H_
