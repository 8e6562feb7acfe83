// The templates of one layer, from its forward graph.
#ifndef STRATA_MODEL_PASSES_LAYER_TEMPLATES_H_
#define STRATA_MODEL_PASSES_LAYER_TEMPLATES_H_

#include <vector>

#include "model/graph/emitter.h"
#include "model/passes/model_graph.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

// What tells apart the templates of layers that share a graph.
struct LayerVariant {
  bool needs_input_gradient = true;  // a layer below trains
  RecomputePlan recompute;           // as it is for this layer; its range is not looked at
  bool split_backward = false;
};

struct LayerShapes {
  PassShape train;
  bool decodes = false;
  PassShape prefill, decode;
};

// Differentiates the graph and appends to `templates`; gives their indices. A layer that trains
// nothing and hands on no gradient has no backward; a split backward has the parts that have work.
// What backward-weight needs of backward-input is stashed: gradients, and forward values whose
// replay would repeat FLOPs (of h = swiglu(gate_up) that is h alone, half of gate_up's bytes); what
// elementwise work makes of saved values is made again.
program::LayerTemplates EmitLayer(Graph graph, const LayerVariant& variant,
                                  const LayerShapes& shapes,
                                  const std::vector<WeightPlace>& weights,
                                  std::vector<program::Template>& templates);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_LAYER_TEMPLATES_H_
