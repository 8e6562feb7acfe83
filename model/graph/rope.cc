// Rotary positions, in place; backward turns the gradients back.
#include <utility>
#include <vector>

#include "model/graph/attention_shape.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class RotationRule : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId dx = tape.Make(node.in[0]);
    Node backward = node;
    backward.in[0] = tape.Gradient(node.out[0]);
    backward.out = {dx};
    backward.phase = Phase::kInput;
    backward.attributes.inverse = true;
    graph.Add(std::move(backward));
    tape.Contribute(node.in[0], dx);
  }
  int in_place(const Node& /*node*/) const override { return 0; }
  bool by_rows() const override { return false; }  // positions count from the first row
  void Lower(Emitter& e, const Node& node) const override {
    const Attributes& a = node.attributes;
    const int64_t row = (a.rotary > 0 ? a.rotary : a.head_size) * 4;
    const View table = e.builder().Formal(program::Role::kConstants, a.table,
                                          e.shape().constant_rows * row, "rope");
    Rope(e.builder(), AttentionShapeOf(e, node), a.rotary, e.Out(node, 0), table, a.inverse,
         e.shape().decodes ? e.Scalars() : View{}, e.InOrNone(node, 1));
  }
};

}  // namespace

ValueId Rope(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads,
             const RopeOptions& options, std::string name) {
  const ValueId turned = graph.Make(std::move(name), graph.values[qkv].width, Layout::kColumns);
  std::vector<ValueId> in = {graph.As(qkv, Layout::kColumns)};
  if (positions >= 0) in.push_back(positions);
  graph.Add({NodeKind::kRope,
             std::move(in),
             {turned},
             -1,
             {.heads = heads.heads,
              .kv_heads = heads.kv_heads,
              .head_size = heads.head_size,
              .table = options.table,
              .rotary = options.rotary}});
  return turned;
}

const NodeRule& RopeRule() {
  static const RotationRule rule;
  return rule;
}

}  // namespace strata::model
