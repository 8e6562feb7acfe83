// Nodes kept beside a job.
#ifndef STRATA_SCHEDULER_PLACEMENT_SPARES_H_
#define STRATA_SCHEDULER_PLACEMENT_SPARES_H_

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Fills placement.spares with up to shape.spares wholly free nodes of its kind that it does not
// use: spread over the groups of the pipeline level by how many of the job's nodes they hold,
// in each those that meet the job's nodes deepest first.
void ChooseSpares(const topology::Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
                  Placement& placement);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_SPARES_H_
