// What model/ hands to the builders: layers in order, each with its templates and the parameter
// sets it uses. Pure data; nothing here knows a layout of ranks beyond what the templates' own
// collectives say.
#ifndef STRATA_PROGRAM_IR_LAYER_GRAPH_H_
#define STRATA_PROGRAM_IR_LAYER_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/parameter_set.h"
#include "program/ir/template.h"

namespace strata::program {

// Indices into LayerGraph::templates; -1: the layer has none.
// The last layer (head and loss) has no `forward`: its `backward` reads input and targets, adds to
// the loss, writes the gradient stream and accumulates its weights' gradients in one go, so that
// logits exist for one chunk of rows only.
struct LayerTemplates {
  int forward = -1;
  int backward = -1;        // input and weight gradients
  int backward_input = -1;  // the split that zero-bubble schedules use
  int backward_weight = -1;
  int evaluate = -1;  // forward that saves nothing (head: adds to the loss)
  int prefill = -1;   // decode over a chunk of rows
  int decode = -1;    // decode over one row
};

struct Layer {
  std::string name;
  LayerTemplates templates;
  std::vector<int> sets;    // parameter sets it uses; Formal::index counts in this list
  int64_t cache_bytes = 0;  // of one sequence's decode cache; 0: none
};

// A table computed once at load (rotary angles).
struct Constant {
  std::string name;
  int64_t bytes = 0;
};

struct LayerGraph {
  std::vector<Template> templates;
  std::vector<ParameterSet> sets;
  std::vector<Constant> constants;
  std::vector<Layer> layers;
  int64_t micro_batch = 0;     // B: sequences per pass
  int64_t sequence = 0;        // T
  int64_t boundary_bytes = 0;  // of an activation between layers, per pass
  int64_t logits_bytes = 0;    // of one decoded row

  int64_t tokens() const { return micro_batch * sequence; }
  int64_t parameters() const {
    int64_t count = 0;
    for (const ParameterSet& set : sets) count += set.parameters();
    return count;
  }
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_LAYER_GRAPH_H_
