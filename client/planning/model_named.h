// Models that flags name: presets of published ones, and what Hugging Face files describe.
#ifndef STRATA_CLIENT_PLANNING_MODEL_NAMED_H_
#define STRATA_CLIENT_PLANNING_MODEL_NAMED_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/fit/presets.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// A preset, a Hugging Face directory, or its config.json; `message` becomes its sizes in a job's
// words. InvalidArgument: it is none of them, with the nearest preset, or the file is wrong.
absl::StatusOr<planner::FitModel> ModelNamed(const std::string& name, v1::ModelSpec& message);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_MODEL_NAMED_H_
