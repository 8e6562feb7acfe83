// RMSNorm (Zhang & Sennrich, 2019): y = x · rstd · w, rstd = 1 / sqrt(mean(x²) + epsilon); with a
// bias layer norm (Ba et al., 2016). Forward alone, together with the addition before it, again
// from a saved statistic, and backward.
#include <utility>

#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

NormShape NormShapeOf(const Emitter& e, const Node& node, ValueId x) {
  return {.rows = e.rows(x),
          .channels = e.width(x),
          .epsilon = node.attributes.epsilon,
          .plus_one = node.attributes.plus_one};
}

NormWeights WeightsOf(Emitter& e, const Node& node) {
  return {e.Weight(node), node.second < 0 ? View{} : e.Weight(node.second)};
}

NormWeights GradientsOf(Emitter& e, const Node& node) {
  if (!e.graph().Trains(node)) return {};
  return {e.Gradient(node), node.second < 0 ? View{} : e.Gradient(node.second)};
}

ValueId AddNorm(Graph& graph, ValueId x, const Node& node, std::string name,
                std::string statistic) {
  x = graph.As(x, Layout::kRows);
  Node norm = node;
  norm.in = {x};
  norm.out = {graph.Make(std::move(name), graph.values[x].width, Layout::kRows)};
  // Of layer norms the mean too.
  norm.out.push_back(
      graph.MakeStatistic(std::move(statistic), node.second < 0 ? 1 : 2, Layout::kRows));
  graph.Add(norm);
  return norm.out[0];
}

class ForwardOfNorm : public NodeRule {
 public:
  int statistic() const override { return 1; }
  // The gradient that x has so far is added to inside.
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    Node backward{.kind = NodeKind::kNormBackward,
                  .in = {tape.Gradient(node.out[0]), x, node.out[1]},
                  .out = {tape.Make(x)},
                  .weight = node.weight,
                  .attributes = node.attributes,
                  .phase = Phase::kInput,
                  .second = node.second};
    if (tape.Gradient(x) >= 0) backward.in.push_back(tape.Gradient(x));
    tape.Replace(x, backward.out[0]);
    graph.Add(std::move(backward));
  }
  void Lower(Emitter& e, const Node& node) const override {
    NormForward(e.builder(), NormShapeOf(e, node, node.in[0]), e.In(node, 0), WeightsOf(e, node),
                e.Out(node, 0), e.Out(node, 1));
  }
};

class ReplayOfNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    NormReplay(e.builder(), NormShapeOf(e, node, node.in[0]), e.In(node, 0), WeightsOf(e, node),
               e.In(node, 1), e.Out(node, 0));
  }
};

class AfterAddOfNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    AddNormForward(e.builder(), NormShapeOf(e, node, node.in[0]), e.In(node, 0), e.In(node, 1),
                   WeightsOf(e, node), e.Out(node, 0), e.Out(node, 1), e.Out(node, 2));
  }
};

class BackwardOfNorm : public NodeRule {
 public:
  int in_place(const Node& node) const override { return node.in.size() > 3 ? 3 : -1; }
  void Lower(Emitter& e, const Node& node) const override {
    NormBackward(e.builder(), NormShapeOf(e, node, node.in[1]), e.In(node, 0), e.In(node, 1),
                 WeightsOf(e, node), e.In(node, 2), e.Out(node, 0), node.in.size() > 3,
                 GradientsOf(e, node));
  }
};

}  // namespace

ValueId Norm(Graph& graph, ValueId x, WeightId weight, const NormOptions& options, std::string name,
             std::string statistic) {
  const Node norm{.kind = NodeKind::kNorm,
                  .weight = weight,
                  .attributes = {.epsilon = options.epsilon, .plus_one = options.plus_one}};
  return AddNorm(graph, x, norm, std::move(name), std::move(statistic));
}

ValueId LayerNorm(Graph& graph, ValueId x, WeightId weight, WeightId bias, double epsilon,
                  std::string name, std::string statistic) {
  const Node norm{.kind = NodeKind::kNorm,
                  .weight = weight,
                  .attributes = {.epsilon = epsilon},
                  .second = bias};
  return AddNorm(graph, x, norm, std::move(name), std::move(statistic));
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
