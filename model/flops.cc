#include "model/flops.h"

namespace strata::model {
namespace {

// Attention's backward is five products of which the first repeats one of forward's two.
constexpr double kRepeatedShare = 1.0 / 5.0;

double Flops(const program::LayerGraph& graph, int index) {
  return index < 0 ? 0 : graph.templates[index].flops();
}

bool IsForwardOp(const program::Op& op) {
  // Of products, only a forward's is by a transposed weight.
  return op.kind == program::OpKind::kAttentionForward ||
         (op.kind == program::OpKind::kMatMul && op.ints[4] != 0);
}

double Recomputed(const program::LayerGraph& graph, const program::LayerTemplates& layer) {
  if (layer.backward < 0) return 0;
  double sum = 0;
  for (const program::Op& op : graph.templates[layer.backward].ops) {
    if (op.kind == program::OpKind::kAttentionBackward) sum += op.flops * kRepeatedShare;
    if (layer.forward >= 0 && IsForwardOp(op)) sum += op.flops;
  }
  return sum;
}

}  // namespace

PassFlops CountTraining(const program::LayerGraph& graph) {
  PassFlops flops;
  for (const program::Layer& layer : graph.layers) {
    flops.forward += Flops(graph, layer.templates.forward);
    flops.backward += Flops(graph, layer.templates.backward);
    flops.recomputed += Recomputed(graph, layer.templates);
  }
  return flops;
}

double CountEvaluation(const program::LayerGraph& graph) {
  double sum = 0;
  for (const program::Layer& layer : graph.layers) sum += Flops(graph, layer.templates.evaluate);
  return sum;
}

}  // namespace strata::model
