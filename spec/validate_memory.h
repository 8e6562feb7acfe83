// What a job file says of memory tiers, update policies and streaming.
#ifndef STRATA_SPEC_VALIDATE_MEMORY_H_
#define STRATA_SPEC_VALIDATE_MEMORY_H_

#include "proto/strata/v1/job.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

void ValidateMemory(const strata::v1::JobSpec& job, const PositionMap& positions,
                    Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_VALIDATE_MEMORY_H_
