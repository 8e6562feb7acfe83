// A value in another layout: rows gathered, or partial sums reduced and scattered. Each is the
// other's derivative (Korthikanti et al., 2022, §4.2.2: g and its conjugate).
#include "model/graph/node_rule.h"

namespace strata::model {
namespace {

class RedistributionRule : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    const Layout conjugate =
        graph.values[x].layout == Layout::kPartial ? Layout::kWhole : graph.values[x].layout;
    tape.Contribute(x, graph.As(tape.Gradient(node.out[0]), conjugate));
  }
};

}  // namespace

const NodeRule& RedistributeRule() {
  static const RedistributionRule rule;
  return rule;
}

}  // namespace strata::model
