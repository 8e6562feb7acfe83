// y = x · Wᵀ, W [out, in]. Cut by its rows (out) the product is column-parallel, by its columns
// (in) row-parallel (Megatron-LM, §3).
#include "common/check.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class ForwardOfLinear : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    const ValueId dy = tape.Gradient(node.out[0]);
    if (graph.weights[node.weight].trainable) {
      graph.Add({NodeKind::kLinearWeightGradient, {x, dy}, {}, node.weight, {}, Phase::kWeight});
    }
    const ValueId dx = tape.Make(x);
    graph.Add({NodeKind::kLinearInputGradient, {dy}, {dx}, node.weight, {}, Phase::kInput});
    tape.Contribute(x, dx);
  }
  double Flops(const Graph& graph, const Node& node, int64_t /*sequence*/) const override {
    const Weight& weight = graph.weights[node.weight];
    return 2.0 * static_cast<double>(weight.rows()) * static_cast<double>(weight.columns());
  }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId y = node.out[0];
    MatMul(e.builder(),
           {.m = e.rows(y), .n = e.width(y), .k = e.width(node.in[0]), .trans_b = true},
           e.In(node, 0), e.Weight(node), e.Out(node, 0), false);
  }
};

// dx = dy · W.
class InputGradientOfLinear : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId dx = node.out[0];
    MatMul(e.builder(), {.m = e.rows(dx), .n = e.width(dx), .k = e.width(node.in[0])},
           e.In(node, 0), e.Weight(node), e.Out(node, 0), false);
  }
};

// dW += dyᵀ · x.
class WeightGradientOfLinear : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[0];
    const ValueId dy = node.in[1];
    MatMul(e.builder(), {.m = e.width(dy), .n = e.width(x), .k = e.rows(x), .trans_a = true},
           e.In(node, 1), e.In(node, 0), e.Gradient(node), true);
  }
};

}  // namespace

ValueId Linear(Graph& graph, ValueId x, WeightId weight, std::string name) {
  const Weight& w = graph.weights[weight];
  Layout in = Layout::kRows;
  Layout out = Layout::kRows;
  if (w.cut == 0) {
    in = Layout::kWhole;
    out = Layout::kColumns;
  } else if (w.cut == 1) {
    in = Layout::kColumns;
    out = Layout::kPartial;
  }
  STRATA_CHECK(graph.values[x].width == w.columns());
  x = graph.As(x, in);
  const ValueId y = graph.Make(std::move(name), graph.weights[weight].rows(), out);
  graph.Add({NodeKind::kLinear, {x}, {y}, weight});
  return y;
}

const NodeRule& LinearRule() {
  static const ForwardOfLinear rule;
  return rule;
}
const NodeRule& LinearInputGradientRule() {
  static const InputGradientOfLinear rule;
  return rule;
}
const NodeRule& LinearWeightGradientRule() {
  static const WeightGradientOfLinear rule;
  return rule;
}

}  // namespace strata::model
