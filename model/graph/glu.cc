// f(gate) · up (Shazeer, "GLU Variants Improve Transformer", 2020), and f(x) alone.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

// Of f(x) and of f(gate) · up the derivative's node reads the same.
void DifferentiateInput(Graph& graph, const Node& node, NodeKind backward, Tape& tape) {
  const ValueId x = node.in[0];
  const ValueId dx = tape.Make(x);
  graph.Add({backward, {tape.Gradient(node.out[0]), x}, {dx}, -1, node.attributes, Phase::kInput});
  tape.Contribute(x, dx);
}

class ForwardOfGlu : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    DifferentiateInput(graph, node, NodeKind::kGluBackward, tape);
  }
  void Lower(Emitter& e, const Node& node) const override {
    GatedForward(e.builder(), node.attributes.function, e.width(node.out[0]), e.In(node, 0),
                 e.Out(node, 0));
  }
};

class BackwardOfGlu : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    GatedBackward(e.builder(), node.attributes.function, e.width(node.in[0]), e.In(node, 0),
                  e.In(node, 1), e.Out(node, 0));
  }
};

class ForwardOfActivate : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    DifferentiateInput(graph, node, NodeKind::kActivateBackward, tape);
  }
  void Lower(Emitter& e, const Node& node) const override {
    Activate(e.builder(), node.attributes.function, e.width(node.out[0]), e.In(node, 0),
             e.Out(node, 0));
  }
};

class BackwardOfActivate : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    ActivateBackward(e.builder(), node.attributes.function, e.width(node.in[0]), e.In(node, 0),
                     e.In(node, 1), e.Out(node, 0));
  }
};

}  // namespace

ValueId Glu(Graph& graph, ValueId gate_up, Function function, std::string name) {
  const ValueId x = graph.As(gate_up, Layout::kColumns);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width / 2, Layout::kColumns);
  graph.Add({NodeKind::kGlu, {x}, {y}, -1, {.function = function}});
  return y;
}

ValueId Activate(Graph& graph, ValueId x, Function function, std::string name) {
  const Value& of = graph.values[x];
  const ValueId y = graph.Make(std::move(name), of.width, of.layout);
  graph.Add({NodeKind::kActivate, {x}, {y}, -1, {.function = function}});
  return y;
}

const NodeRule& GluRule() {
  static const ForwardOfGlu rule;
  return rule;
}
const NodeRule& GluBackwardRule() {
  static const BackwardOfGlu rule;
  return rule;
}
const NodeRule& ActivateRule() {
  static const ForwardOfActivate rule;
  return rule;
}
const NodeRule& ActivateBackwardRule() {
  static const BackwardOfActivate rule;
  return rule;
}

}  // namespace strata::model
