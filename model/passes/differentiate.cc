#include "model/passes/differentiate.h"

#include <set>

#include "model/graph/node_rule.h"

namespace strata::model {
namespace {

bool IsRoot(const Graph& graph, const Node& node, bool needs_input_gradient) {
  if (node.kind == NodeKind::kLossBackward) return true;
  const bool has_gradient = node.phase == Phase::kWeight || node.kind == NodeKind::kNormBackward ||
                            node.kind == NodeKind::kHeadNormBackward;
  if (has_gradient && graph.Trains(node)) return true;
  return needs_input_gradient && graph.input >= 0 && !node.out.empty() &&
         node.out[0] == graph.Source(graph.input_gradient);
}

}  // namespace

void Differentiate(Graph& graph) {
  graph.forward_nodes = static_cast<NodeId>(graph.nodes.size());
  Tape tape(graph);
  if (graph.output >= 0) {
    graph.output_gradient = graph.Given("d_output", graph.values[graph.output].width, Layout::kRows,
                                        program::Role::kOutputGradient);
    tape.Contribute(graph.output, graph.output_gradient);
  }
  for (NodeId id = graph.forward_nodes; id-- > 0;) {
    const Node node = graph.nodes[id];  // the graph grows
    const bool reached = node.out.empty() || tape.Gradient(node.out[0]) >= 0;
    if (reached) RuleOf(node.kind).Differentiate(graph, node, tape);
  }
  if (graph.input >= 0) graph.input_gradient = tape.Gradient(graph.input);
}

std::vector<NodeId> LiveBackward(const Graph& graph, bool needs_input_gradient) {
  const NodeId count = static_cast<NodeId>(graph.nodes.size());
  std::set<ValueId> wanted;
  std::vector<NodeId> live;
  for (NodeId id = count; id-- > graph.forward_nodes;) {
    const Node& node = graph.nodes[id];
    bool alive = IsRoot(graph, node, needs_input_gradient);
    for (const ValueId out : node.out) alive = alive || wanted.contains(out);
    if (!alive) continue;
    wanted.insert(node.in.begin(), node.in.end());
    if (node.kind != NodeKind::kRedistribute) live.insert(live.begin(), id);
  }
  return live;
}

std::vector<ValueId> ForwardReads(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::set<ValueId> reads;
  for (const NodeId id : nodes) {
    for (const ValueId in : graph.nodes[id].in) {
      const ValueId kept = graph.Kept(in);
      if (graph.IsForward(kept)) reads.insert(kept);
    }
  }
  // Values are numbered as they are made.
  return {reads.begin(), reads.end()};
}

}  // namespace strata::model
