// The model of a job file as a ModelSpec, and back.
#ifndef STRATA_MODEL_MODEL_SPEC_PROTO_H_
#define STRATA_MODEL_MODEL_SPEC_PROTO_H_

#include <optional>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::model {

// Nothing for a family that is not said or not known.
std::optional<Family> FamilyOf(v1::ModelSpec::Family family);
v1::ModelSpec::Family ToProto(Family family);

// From a message with sizes; what is absent otherwise is what its family does
// (family_defaults.h), but which layers have the sliding window is taken as it stands: all of them
// where `full_attention_layers` is empty. Of longrope, an absent factor is context /
// original_max_position_embeddings. InvalidArgument: a size is missing or impossible, a word or a
// layer means nothing.
absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message);

// The same without Validate (model_spec.h): sizes may be impossible.
absl::StatusOr<ModelSpec> Unchecked(const v1::ModelSpec& message);

// What FromProto reads to give `spec` again; options that the model does not have are left out
// where its family does not have them either.
v1::ModelSpec ToProto(const ModelSpec& spec);

}  // namespace strata::model

#endif  // STRATA_MODEL_MODEL_SPEC_PROTO_H_
