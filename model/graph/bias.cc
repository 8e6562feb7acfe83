// x + b, into the bytes of x, which a product has just made; db += Σ dy, and dx is dy.
#include "common/check.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"
#include "model/graph/shared_columns.h"

namespace strata::model {
namespace {

class ForwardOfBias : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId dy = tape.Gradient(node.out[0]);
    if (graph.Trains(node)) {
      graph.Add({.kind = NodeKind::kBiasGradient,
                 .in = {dy},
                 .weight = node.weight,
                 .attributes = node.attributes,
                 .phase = Phase::kWeight,
                 .second = node.second});
    }
    tape.Contribute(node.in[0], dy);
  }
  int in_place(const Node& /*node*/) const override { return 0; }
  void Lower(Emitter& e, const Node& node) const override {
    const int64_t width = e.width(node.out[0]);
    if (node.second < 0) return AddBias(e.builder(), width, e.Out(node, 0), e.Weight(node));
    const SharedColumns shared = SharedColumnsOf(e, node, width);
    const View own = e.Scratch("own heads' bias", width, e.graph().type);
    Copy(e.builder(), own.Elements(0, shared.own), e.Weight(node));
    TakeHeads(e.builder(), shared.heads, e.Weight(node.second), own.FromColumn(shared.own));
    AddBias(e.builder(), width, e.Out(node, 0), own);
  }
};

class GradientOfBias : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const int64_t width = e.width(node.in[0]);
    const View dy = e.In(node, 0);
    if (node.second < 0) return BiasGradient(e.builder(), width, dy, e.Gradient(node));
    const SharedColumns shared = SharedColumnsOf(e, node, width);
    const View of_own = e.Gradient(node), of_shared = e.Gradient(node.second);
    Add(e.builder(), of_own, SumOf(e, "bias gradient", width, dy, of_own).Elements(0, shared.own));
    AddHeads(e.builder(), shared.heads, of_shared,
             SumOf(e, "own heads' bias gradient", width, dy, of_shared).FromColumn(shared.own));
  }

 private:
  // Of all columns, with the partial marks of the gradient that some of them are for.
  static View SumOf(Emitter& e, const char* name, int64_t width, const View& dy,
                    const View& gradient) {
    const View sum = e.Scratch(name, width).Marked(gradient.partial);
    Zero(e.builder(), sum);
    BiasGradient(e.builder(), width, dy, sum);
    return sum;
  }
};

}  // namespace

ValueId Bias(Graph& graph, ValueId x, WeightId bias, std::string name) {
  const Weight& b = graph.weights[bias];
  if (b.cut < 0) x = graph.As(x, Layout::kRows);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, graph.values[x].layout);
  STRATA_CHECK(b.rows() == graph.values[x].width);
  STRATA_CHECK((graph.values[x].layout == Layout::kColumns) == (b.cut == 0));
  graph.Add({NodeKind::kBias, {x}, {y}, bias});
  return y;
}

ValueId BiasWithShared(Graph& graph, ValueId x, WeightId bias, WeightId shared, int64_t heads,
                       std::string name) {
  STRATA_CHECK(graph.values[x].layout == Layout::kColumns);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, Layout::kColumns);
  graph.Add({.kind = NodeKind::kBias,
             .in = {x},
             .out = {y},
             .weight = bias,
             .attributes = {.kv_heads = heads},
             .second = shared});
  return y;
}

const NodeRule& BiasRule() {
  static const ForwardOfBias rule;
  return rule;
}
const NodeRule& BiasGradientRule() {
  static const GradientOfBias rule;
  return rule;
}

}  // namespace strata::model
