// cap · tanh(x / cap) of logits that are shown (Gemma Team, "Gemma 2", 2024, §2), in place. The
// loss has its own.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class SoftcapNodeRule : public NodeRule {
 public:
  int in_place(const Node& /*node*/) const override { return 0; }
  void Lower(Emitter& e, const Node& node) const override {
    Softcap(e.builder(), node.attributes.softcap, e.Out(node, 0));
  }
};

}  // namespace

ValueId Softcap(Graph& graph, ValueId x, double cap, std::string name) {
  const Value& of = graph.values[x];
  const bool streamed = of.streamed;
  const ValueId y = graph.Make(std::move(name), of.width, of.layout);
  graph.values[y].streamed = streamed;
  graph.Add({NodeKind::kSoftcap, {x}, {y}, -1, {.softcap = cap}});
  return y;
}

const NodeRule& SoftcapRule() {
  static const SoftcapNodeRule rule;
  return rule;
}

}  // namespace strata::model
