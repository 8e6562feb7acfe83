// x · factor, in place.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class RuleOfScale : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId dx = tape.Make(node.in[0]);
    graph.Add(
        {NodeKind::kScale, {tape.Gradient(node.out[0])}, {dx}, -1, node.attributes, Phase::kInput});
    tape.Contribute(node.in[0], dx);
  }
  int in_place(const Node& /*node*/) const override { return 0; }
  void Lower(Emitter& e, const Node& node) const override {
    Scale(e.builder(), node.attributes.scale, e.Out(node, 0));
  }
};

}  // namespace

ValueId Scale(Graph& graph, ValueId x, double factor, std::string name) {
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, graph.values[x].layout);
  graph.Add({NodeKind::kScale, {x}, {y}, -1, {.scale = factor}});
  return y;
}

const NodeRule& ScaleRule() {
  static const RuleOfScale rule;
  return rule;
}

}  // namespace strata::model
