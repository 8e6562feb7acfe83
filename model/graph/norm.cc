// RMSNorm (Zhang & Sennrich, 2019): y = x · rstd · w, rstd = 1 / sqrt(mean(x²) + epsilon). Forward
// alone, together with the addition before it, again from a saved rstd, and backward.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class ForwardOfNorm : public NodeRule {
 public:
  int statistic() const override { return 1; }
  // The gradient that x has so far is added to inside.
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    Node backward{NodeKind::kNormBackward, {tape.Gradient(node.out[0]), x, node.out[1]},
                  {tape.Make(x)},          node.weight,
                  node.attributes,         Phase::kInput};
    if (tape.Gradient(x) >= 0) backward.in.push_back(tape.Gradient(x));
    tape.Replace(x, backward.out[0]);
    graph.Add(std::move(backward));
  }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[0];
    RmsNormForward(e.builder(), e.rows(x), e.width(x), node.attributes.epsilon, e.In(node, 0),
                   e.Weight(node), e.Out(node, 0), e.Out(node, 1));
  }
};

class ReplayOfNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[0];
    RmsNormReplay(e.builder(), e.rows(x), e.width(x), e.In(node, 0), e.Weight(node), e.In(node, 1),
                  e.Out(node, 0));
  }
};

class AfterAddOfNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[0];
    AddRmsNormForward(e.builder(), e.rows(x), e.width(x), node.attributes.epsilon, e.In(node, 0),
                      e.In(node, 1), e.Weight(node), e.Out(node, 0), e.Out(node, 1),
                      e.Out(node, 2));
  }
};

class BackwardOfNorm : public NodeRule {
 public:
  int in_place(const Node& node) const override { return node.in.size() > 3 ? 3 : -1; }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[1];
    RmsNormBackward(e.builder(), e.rows(x), e.width(x), e.In(node, 0), e.In(node, 1),
                    e.Weight(node), e.In(node, 2), e.Out(node, 0), node.in.size() > 3,
                    e.Gradient(node));
  }
};

}  // namespace

ValueId Norm(Graph& graph, ValueId x, WeightId weight, double epsilon, std::string name,
             std::string statistic) {
  x = graph.As(x, Layout::kRows);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, Layout::kRows);
  const ValueId rstd = graph.Make(std::move(statistic), 1, Layout::kRows);
  graph.Add({NodeKind::kNorm, {x}, {y, rstd}, weight, {.epsilon = epsilon}});
  return y;
}

const NodeRule& NormRule() {
  static const ForwardOfNorm rule;
  return rule;
}
const NodeRule& NormReplayRule() {
  static const ReplayOfNorm rule;
  return rule;
}
const NodeRule& AddNormRule() {
  static const AfterAddOfNorm rule;
  return rule;
}
const NodeRule& NormBackwardRule() {
  static const BackwardOfNorm rule;
  return rule;
}

}  // namespace strata::model
