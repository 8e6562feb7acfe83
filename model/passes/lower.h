// Loops of nodes to a template: which values share bytes, where each lies, chunks of rows, ops.
#ifndef STRATA_MODEL_PASSES_LOWER_H_
#define STRATA_MODEL_PASSES_LOWER_H_

#include <map>
#include <string>
#include <vector>

#include "model/graph/emitter.h"
#include "model/graph/graph.h"
#include "model/passes/linearise.h"
#include "program/ir/template.h"

namespace strata::model {

// A value that lies in one of the template's formals.
struct Binding {
  program::Role role = program::Role::kAny;
  int index = 0;
  std::string name;
  bool preserved = false;  // what is in it outlives the template
};
using Bindings = std::map<ValueId, Binding>;

// Bindings must name every value that no node of the loops makes. A node that works in place takes
// over its input's bytes where nothing reads the input afterwards, else a copy of it. Collectives
// are cut into shape.chunks: a chunk is gathered while the one before is used, and reduced while
// the next is made, in two buffers each.
program::Template Lower(const Graph& graph, const PassShape& shape,
                        const std::vector<WeightPlace>& weights, const std::string& name,
                        const std::vector<Loop>& loops, const Bindings& bindings);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_LOWER_H_
