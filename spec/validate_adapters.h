// What method, lora and quantize of a job's train section demand of one another.
#ifndef STRATA_SPEC_VALIDATE_ADAPTERS_H_
#define STRATA_SPEC_VALIDATE_ADAPTERS_H_

#include "proto/strata/v1/job.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

// Fields that already have a problem are not looked at again.
void ValidateAdapters(const strata::v1::JobSpec& job, const PositionMap& positions,
                      Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_VALIDATE_ADAPTERS_H_
