// An independent check of a placement: written from the rules, shares no code with what makes
// placements.
#ifndef STRATA_SCHEDULER_PLACEMENT_VALIDATE_H_
#define STRATA_SCHEDULER_PLACEMENT_VALIDATE_H_

#include "absl/status/status.h"
#include "scheduler/placement/placement.h"

namespace strata::scheduler {

// OK, or FailedPrecondition naming the first broken rule and the ranks: devices exist, are free,
// are of one kind that was asked for and are used once; ranks are complete; tensor groups inside
// one domain; one local index per tensor coordinate; the runs of required constraints inside one
// group each; without constraints no split pipeline where whole ones fit; spares are whole free
// nodes of the kind; the cost told is the cost counted anew from the edges.
absl::Status Validate(const topology::Cluster& cluster, const Occupancy& occupancy,
                      const Shape& shape, const Placement& placement);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_VALIDATE_H_
