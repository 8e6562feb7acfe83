#include "model/model_spec_proto.h"

#include "common/status_macros.h"

namespace strata::model {
namespace {

absl::StatusOr<Family> FamilyOf(v1::ModelSpec::Family family) {
  switch (family) {
    case v1::ModelSpec::FAMILY_LLAMA:
      return Family::kLlama;
    case v1::ModelSpec::FAMILY_GPT2:
      return Family::kGpt2;
    case v1::ModelSpec::FAMILY_MISTRAL:
      return Family::kMistral;
    case v1::ModelSpec::FAMILY_QWEN2:
      return Family::kQwen2;
    case v1::ModelSpec::FAMILY_QWEN3:
      return Family::kQwen3;
    default:
      return absl::InvalidArgumentError("model.family: missing");
  }
}

}  // namespace

absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message) {
  ModelSpec spec;
  ASSIGN_OR_RETURN(spec.family, FamilyOf(message.family()));
  if (message.rope().has_scaling()) {
    return absl::UnimplementedError("model.rope.scaling: not supported yet");
  }
  spec.layers = message.layers();
  spec.hidden = message.hidden();
  spec.heads = message.heads();
  spec.kv_heads = message.has_kv_heads() ? message.kv_heads() : spec.heads;
  if (message.has_head_size()) {
    spec.head_size = message.head_size();
  } else if (spec.heads > 0 && spec.hidden % spec.heads == 0) {
    spec.head_size = spec.hidden / spec.heads;
  } else {
    return absl::InvalidArgumentError(
        "model.head_size: missing, and heads do not divide hidden — set it");
  }
  spec.ffn = message.ffn();
  spec.vocab = message.vocab();
  spec.context = message.context();
  spec.tied_embeddings = message.tied_embeddings();
  if (message.rope().has_theta()) spec.rope_theta = message.rope().theta();
  if (message.has_initial_std()) spec.initial_std = message.initial_std();
  RETURN_IF_ERROR(Validate(spec));
  return spec;
}

}  // namespace strata::model
