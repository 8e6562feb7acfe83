// A job's layout as the numbers that program/compose/check_plan.h judges.
#ifndef STRATA_SPEC_PLAN_SHAPE_H_
#define STRATA_SPEC_PLAN_SHAPE_H_

#include "program/compose/check_plan.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/problems.h"

namespace strata::spec {

// none for the unspecified level.
program::PlanShape::Shard ShardOf(strata::v1::ParallelSpec::Shard shard);

// `job` has its defaults. What already has a problem counts as not known. Sizes of a model that is
// read from elsewhere (model.from) are not known.
program::PlanShape PlanShapeOf(const strata::v1::JobSpec& job, const Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_PLAN_SHAPE_H_
