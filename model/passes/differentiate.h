// The backward of a layer, as nodes added to its graph.
#ifndef STRATA_MODEL_PASSES_DIFFERENTIATE_H_
#define STRATA_MODEL_PASSES_DIFFERENTIATE_H_

#include <vector>

#include "model/graph/graph.h"

namespace strata::model {

// Goes through the forward's nodes in reverse. Afterwards `output_gradient` is given from outside
// (where the graph has an output) and `input_gradient` made (where it has an input). A frozen
// weight has no node of its own.
void Differentiate(Graph& graph);

// Backward nodes that are worth executing, in order: those that reach a trainable weight, the loss
// or, where a layer below wants it, the input's gradient. Without Redistribute nodes, which are
// made where they are needed.
std::vector<NodeId> LiveBackward(const Graph& graph, bool needs_input_gradient);

// Forward values that these nodes read (behind gathers), in the order in which the
// forward makes them.
std::vector<ValueId> ForwardReads(const Graph& graph, const std::vector<NodeId>& nodes);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_DIFFERENTIATE_H_
