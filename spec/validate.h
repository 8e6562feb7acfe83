// What fields of a job demand of one another, checked without any other file.
#ifndef STRATA_SPEC_VALIDATE_H_
#define STRATA_SPEC_VALIDATE_H_

#include "proto/strata/v1/job.pb.h"
#include "spec/job_file.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

// `job` has its defaults; `positions` says which fields the file gave. Fields that already have a
// problem are not looked at again.
void Validate(const strata::v1::JobSpec& job, const PositionMap& positions,
              const ReadOptions& options, Problems& problems);

// Refuses what Strata cannot do yet, repeating the value. Fields that already have a problem are
// left out.
void CheckSupported(const strata::v1::JobSpec& job, const PositionMap& positions,
                    Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_VALIDATE_H_
