// What the order of its sums means for a job, for people.
#ifndef STRATA_PLANNER_ORDER_OF_SUMS_H_
#define STRATA_PLANNER_ORDER_OF_SUMS_H_

#include <string>

#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// The part of a sentence that begins with "sums of gradients": where the layout has an order of its
// own (virtual_shards off), so that no other layout gives its bits; or where a tree under zero2 and
// zero3 keeps more than one sum of a rank's part, and what that takes (1 + log2 of the rank's
// leaves, in f32). Else empty. `job` has its defaults.
std::string OrderOfSums(const v1::JobSpec& job);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_ORDER_OF_SUMS_H_
