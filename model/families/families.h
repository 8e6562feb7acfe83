// The families of models, each a forward and a table of names (a file each; parts.h has what they
// are made of).
#ifndef STRATA_MODEL_FAMILIES_FAMILIES_H_
#define STRATA_MODEL_FAMILIES_FAMILIES_H_

#include "absl/status/statusor.h"
#include "model/families/parts.h"
#include "model/model_spec.h"
#include "model/passes/emit_model.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

// The forwards of a model's layers. The spec is valid, and fits the options (CheckOptions).
ModelGraph ForwardOf(const ModelSpec& spec, const ForwardOptions& options);

// Llama (Touvron et al., 2023), Mistral (Jiang et al., 2023), Qwen 2 and 3 (Yang et al., 2024,
// 2025).
ModelGraph LlamaForward(const ModelSpec& spec, const ForwardOptions& options);
// GPT-2 (Radford et al., 2019).
ModelGraph Gpt2Forward(const ModelSpec& spec, const ForwardOptions& options);
// Gemma 2 and 3 (Gemma Team, 2024, 2025).
ModelGraph GemmaForward(const ModelSpec& spec, const ForwardOptions& options);
// Phi-3 (Abdin et al., 2024).
ModelGraph Phi3Forward(const ModelSpec& spec, const ForwardOptions& options);

ForwardOptions ForwardOptionsOf(const EmitOptions& options);

// A model's layer graph. InvalidArgument: shapes that do not fit together.
absl::StatusOr<program::LayerGraph> EmitFamily(const ModelSpec& spec, const EmitOptions& options);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILIES_FAMILIES_H_
