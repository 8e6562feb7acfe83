// Which data degrees give the same numbers (DESIGN, Determinism).
#ifndef STRATA_PLANNER_DATA_DEGREES_H_
#define STRATA_PLANNER_DATA_DEGREES_H_

#include <cstdint>
#include <vector>

#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// V of the reduction tree: as asked for, else the data degree that the job has.
int64_t VirtualShards(const v1::ParallelSpec& parallel, int64_t data);

// Degrees below `data` that a job of this data degree could run with too, bit for bit, descending:
// virtual_shards divided by powers of two, and 1; with shard_group, of whole groups only.
std::vector<int64_t> FewerData(const v1::ParallelSpec& parallel, int64_t data);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_DATA_DEGREES_H_
