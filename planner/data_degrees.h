// Which data degrees give the same numbers (program/compose/check_plan.h, order of sums).
#ifndef STRATA_PLANNER_DATA_DEGREES_H_
#define STRATA_PLANNER_DATA_DEGREES_H_

#include <cstdint>
#include <vector>

#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// `parallel`, whose data degree is `data`, with another one; a shard group of all ranks stays one.
v1::ParallelSpec WithData(const v1::ParallelSpec& parallel, int64_t data, int64_t other);

// Degrees below `data` that a job of this data degree could run with too, bit for bit, descending;
// with a smaller shard_group, of whole groups only. None with virtual_shards off: then the bits are
// those of one degree alone. `parallel` has its defaults.
std::vector<int64_t> FewerData(const v1::ParallelSpec& parallel, int64_t data);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_DATA_DEGREES_H_
