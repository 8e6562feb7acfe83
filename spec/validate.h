// What fields of a job demand of one another, checked without any other file.
#ifndef STRATA_SPEC_VALIDATE_H_
#define STRATA_SPEC_VALIDATE_H_

#include <cstdint>
#include <optional>

#include "proto/strata/v1/job.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

// `job` has its defaults; `positions` says which fields the file gave. Fields that already have a
// problem are not looked at again. `ranks`: the command line's --ranks.
void Validate(const strata::v1::JobSpec& job, const PositionMap& positions,
              std::optional<int64_t> ranks, Problems& problems);

// Refuses what Strata cannot do yet, repeating the value. Fields that already have a problem are
// left out.
void CheckSupported(const strata::v1::JobSpec& job, const PositionMap& positions,
                    Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_VALIDATE_H_
