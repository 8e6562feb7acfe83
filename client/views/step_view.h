// Where a step's time went, by purpose, as rank 0 tells it.
#ifndef STRATA_CLIENT_VIEWS_STEP_VIEW_H_
#define STRATA_CLIENT_VIEWS_STEP_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

// step, seconds, and of each purpose its seconds of compute, exposed (the computation waited for
// it) and background (beside the computation).
Json StepJson(const v1::StepRecord& record);

// The same for people: a line of sums, and PURPOSE COMPUTE EXPOSED BACKGROUND.
std::string DescribeStep(const v1::StepRecord& record);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_STEP_VIEW_H_
