// x + branch, into the branch's bytes: a branch is what a product has just made, x the residual
// stream. As many bytes as a copy and an accumulating product, and more exact, since the product is
// summed before the larger x is added.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class AdditionRule : public NodeRule {
 public:
  void Differentiate(Graph& /*graph*/, const Node& node, Tape& tape) const override {
    const ValueId dy = tape.Gradient(node.out[0]);
    for (const ValueId term : node.in) tape.Contribute(term, dy);
  }
  int in_place(const Node& /*node*/) const override { return 1; }
  void Lower(Emitter& e, const Node& node) const override {
    Add(e.builder(), e.Out(node, 0), e.In(node, 0));
  }
};

}  // namespace

ValueId Add(Graph& graph, ValueId x, ValueId branch, std::string name) {
  x = graph.As(x, Layout::kRows);
  branch = graph.As(branch, Layout::kRows);
  const ValueId sum = graph.Make(std::move(name), graph.values[x].width, Layout::kRows);
  graph.Add({NodeKind::kAdd, {x, branch}, {sum}});
  return sum;
}

const NodeRule& AddRule() {
  static const AdditionRule rule;
  return rule;
}

}  // namespace strata::model
