// Of the disks of a machine that was measured: how requests are best cut, and what they then give.
#ifndef STRATA_PLANNER_COST_DISK_CHOICE_H_
#define STRATA_PLANNER_COST_DISK_CHOICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::planner {

// Request size and depth of the measured ones with the highest rate of reads and writes together
// (of equal ones the least in flight), and the rates of a rank that stripes over all `directories`
// and shares them with as many others: a stripe is as fast as its slowest part. A directory is
// measured where it, or one above it, is in the profile. FailedPrecondition: one is not, saying
// what to do. `directories` is not empty, `ranks_on_node` positive.
absl::StatusOr<v1::DiskRate> ChooseDiskRate(const v1::Profile& profile,
                                            const std::vector<std::string>& directories,
                                            int64_t ranks_on_node);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_DISK_CHOICE_H_
