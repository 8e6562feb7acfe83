// silu(gate) · up (Shazeer, "GLU Variants Improve Transformer", 2020).
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class ForwardOfSwiglu : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    const ValueId dx = tape.Make(x);
    graph.Add(
        {NodeKind::kSwigluBackward, {tape.Gradient(node.out[0]), x}, {dx}, -1, {}, Phase::kInput});
    tape.Contribute(x, dx);
  }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId y = node.out[0];
    SwigluForward(e.builder(), e.rows(y), e.width(y), e.In(node, 0), e.Out(node, 0));
  }
};

class BackwardOfSwiglu : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId dy = node.in[0];
    SwigluBackward(e.builder(), e.rows(dy), e.width(dy), e.In(node, 0), e.In(node, 1),
                   e.Out(node, 0));
  }
};

}  // namespace

ValueId Swiglu(Graph& graph, ValueId gate_up, std::string name) {
  const ValueId x = graph.As(gate_up, Layout::kColumns);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width / 2, Layout::kColumns);
  graph.Add({NodeKind::kSwiglu, {x}, {y}});
  return y;
}

const NodeRule& SwigluRule() {
  static const ForwardOfSwiglu rule;
  return rule;
}
const NodeRule& SwigluBackwardRule() {
  static const BackwardOfSwiglu rule;
  return rule;
}

}  // namespace strata::model
