// Structural checks of what emitters make: a broken template is found where it is made, not when it
// runs.
#ifndef STRATA_MODEL_EMIT_CHECK_H_
#define STRATA_MODEL_EMIT_CHECK_H_

#include "absl/status/status.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

// Internal, naming the op, when an operand leaves its slot, overlaps another operand of the op that
// it may not, a local is read before all of the bytes read have been written, operands or
// attributes are not as ops/ says, a dependency is not an earlier op of another stream, or ops of
// different streams may touch the same bytes at once.
absl::Status CheckTemplate(const program::Template& checked);

// All templates, and that layers agree with each other: formals are used as their roles allow,
// boundaries have the graph's size, backward reads what forward saved (every saved byte was
// written), weight-backward what input-backward stashed, parameters and gradients have their sets'
// sizes, constants and caches theirs.
absl::Status CheckGraph(const program::LayerGraph& graph);

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_CHECK_H_
