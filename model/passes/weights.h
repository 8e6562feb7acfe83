// The weights pass: which weights train, and the parameter sets that a layer's weights make.
#ifndef STRATA_MODEL_PASSES_WEIGHTS_H_
#define STRATA_MODEL_PASSES_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/graph/emitter.h"
#include "model/passes/model_graph.h"
#include "program/ir/parameter_set.h"

namespace strata::model {

// Whether the name is the pattern's, where '*' stands for any characters.
bool Matches(const std::string& pattern, const std::string& name);

// Marks the weights of a layer that `frozen` names. InvalidArgument when it names some parts of a
// fused tensor only.
absl::Status Freeze(Graph& graph, const ModelLayer& layer, const std::vector<std::string>& frozen);

// InvalidArgument when a pattern names no tensor, or all of them are frozen.
absl::Status CheckFrozen(const ModelGraph& model, const std::vector<std::string>& frozen);

// A layer's sets in the order in which its weights name them, tensors as this rank of
// graph.degree holds them, laid out as the options say. A set trains whole or not at all: what is
// frozen of a set that trains is a set of its own, ".frozen" behind its name. `places`, if any,
// becomes where each weight lies.
std::vector<program::ParameterSet> SetsOf(const Graph& graph, const ModelLayer& layer,
                                          const EmitOptions& options,
                                          std::vector<WeightPlace>* places);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_WEIGHTS_H_
