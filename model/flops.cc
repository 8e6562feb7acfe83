#include "model/flops.h"

namespace strata::model {
namespace {

// Attention's backward is five products of which the first repeats one of forward's two.
constexpr double kRepeatedShare = 1.0 / 5.0;

double Flops(const program::LayerGraph& graph, int index) {
  return index < 0 ? 0 : graph.templates[index].flops();
}

double Recomputed(const program::LayerGraph& graph, int index) {
  if (index < 0) return 0;
  double sum = 0;
  for (const program::Op& op : graph.templates[index].ops) {
    if (op.kind == program::OpKind::kAttentionBackward) sum += op.flops * kRepeatedShare;
  }
  return sum;
}

}  // namespace

PassFlops CountTraining(const program::LayerGraph& graph) {
  PassFlops flops;
  for (const program::Layer& layer : graph.layers) {
    flops.forward += Flops(graph, layer.templates.forward);
    flops.backward += Flops(graph, layer.templates.backward);
    flops.recomputed += Recomputed(graph, layer.templates.backward);
  }
  return flops;
}

double CountEvaluation(const program::LayerGraph& graph) {
  double sum = 0;
  for (const program::Layer& layer : graph.layers) sum += Flops(graph, layer.templates.evaluate);
  return sum;
}

}  // namespace strata::model
