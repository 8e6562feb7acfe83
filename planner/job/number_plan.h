// Types and optimizers as a job asks for them.
#ifndef STRATA_PLANNER_JOB_NUMBER_PLAN_H_
#define STRATA_PLANNER_JOB_NUMBER_PLAN_H_

#include "absl/status/statusor.h"
#include "model/optimizer/number_formats.h"
#include "program/compose/plan.h"
#include "program/ir/types.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// That the model computes in. Unimplemented: a precision that this build does not have.
absl::StatusOr<program::DType> ComputeTypeOf(v1::TrainSpec::Precision precision);

model::NumberFormats NumberFormatsOf(const v1::TrainSpec& train);

// The plan's types: gradients, masters, moments, loss scaling.
void SetTypes(const v1::TrainSpec& train, program::Plan& plan);

// `gradient`: as updates read it.
program::UpdateEmitter UpdateOf(const v1::TrainSpec& train, program::DType gradient);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_JOB_NUMBER_PLAN_H_
