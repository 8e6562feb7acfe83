#include "model/families/families.h"

#include "common/status_macros.h"

namespace strata::model {

ModelGraph ForwardOf(const ModelSpec& spec, const ForwardOptions& options) {
  switch (spec.family) {
    case Family::kGpt2:
      return Gpt2Forward(spec, options);
    case Family::kGemma2:
    case Family::kGemma3:
      return GemmaForward(spec, options);
    case Family::kPhi3:
      return Phi3Forward(spec, options);
    default:
      return LlamaForward(spec, options);
  }
}

ForwardOptions ForwardOptionsOf(const EmitOptions& options) {
  return {.degree = options.tensor_degree,
          .context = options.context_ranks,
          .documents = options.documents,
          .type = options.type};
}

absl::StatusOr<program::LayerGraph> EmitFamily(const ModelSpec& spec, const EmitOptions& options) {
  RETURN_IF_ERROR(Validate(spec));
  RETURN_IF_ERROR(CheckOptions(spec, options));
  return EmitModel(ForwardOf(spec, ForwardOptionsOf(options)), spec, options);
}

}  // namespace strata::model
