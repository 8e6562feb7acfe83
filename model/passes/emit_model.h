// A model's layer graph: parameter sets and templates, derived from the forwards of its layers by
// the passes beside this file.
//
// Formals of a layer's templates (roles; index where there are several; in order of first use: bind
// by role and index):
//   forward           kInput | kTokens, kParameters, kConstants, kPositions (with documents),
//   kSaved,
//                     kOutput
//   backward          the same, read, but kOutput; kGradientStream (in place: the output's gradient
//                     on entry, the input's on exit), kGradients
//   backward_input    kOutputGradient instead of the stream, kInputGradient, kStash; of kGradients
//                     norm weights alone
//   backward_weight   kOutputGradient (the same bytes as in backward_input, still needed), kStash,
//                     kSaved, kInput; kGradients of matrices
//   evaluate          as forward, saving nothing
//   prefill, decode   as evaluate with kScalars and kCache
// The last layer has no forward: its backward reads kInput and kTargets, adds to kLoss, writes the
// gradient stream; its evaluate adds to kLoss; its prefill and decode write kLogits (all rows).
// kSaved counts the saved values in the order in which the forward makes them (recompute.h).
// In a context group a rank's rows are T / context_ranks of each sequence, all weights' gradients
// and the loss are partial over the group. With tensor_degree t > 1 a rank holds [N/t, C] between
// layers (graph.h says which); gradients of weights that are whole on every rank are partial over
// the tensor group, operands say so, and nothing in a template completes them. There is no decoding
// with t > 1, in a context group or with documents.
#ifndef STRATA_MODEL_PASSES_EMIT_MODEL_H_
#define STRATA_MODEL_PASSES_EMIT_MODEL_H_

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "model/passes/model_graph.h"
#include "program/ir/layer_graph.h"

namespace strata::model {

// InvalidArgument: sizes, degrees and chunks that do not fit the model.
absl::Status CheckOptions(const ModelSpec& spec, const EmitOptions& options);

// Of checked options; the graphs have options.tensor_degree. InvalidArgument: frozen patterns or
// recompute names that mean nothing. Layers with equal settings share templates. Below the first
// layer that trains there is no backward (-1) and nothing is saved.
absl::StatusOr<program::LayerGraph> EmitModel(const ModelGraph& model, const ModelSpec& spec,
                                              const EmitOptions& options);

// Rows of the rotary table (constant 0): the context, and a prefill chunk beyond it since a last
// chunk may be longer than what is left of the context. In a context group: of the rank's own rows,
// in their order, unless documents' positions say which rows are read.
int64_t RopeTableRows(const ModelSpec& spec, const EmitOptions& options);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_EMIT_MODEL_H_
