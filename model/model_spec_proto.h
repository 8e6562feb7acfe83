// The model of a job file as a ModelSpec.
#ifndef STRATA_MODEL_MODEL_SPEC_PROTO_H_
#define STRATA_MODEL_MODEL_SPEC_PROTO_H_

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::model {

// From a message with defaults applied (spec::ApplyDefaults); derived sizes that are still absent
// get theirs too. A model named by a directory (`from`) has been resolved to sizes by the caller.
// InvalidArgument: a size is missing or impossible. Unimplemented: a feature that is not built.
absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message);

}  // namespace strata::model

#endif  // STRATA_MODEL_MODEL_SPEC_PROTO_H_
