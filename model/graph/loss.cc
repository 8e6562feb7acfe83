// Cross entropy. Backward adds to the loss too and turns the logits into their gradient where they
// lie. With the vocabulary cut over ranks, one small gather of three numbers per row and rank takes
// the place of gathering logits (Megatron-LM, §3).
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

VocabularyShape LossShape(const Emitter& e, const Node& node) {
  return {.rows = e.rows(),
          .vocab = e.width(node.in[0]),
          .whole = e.graph().values[node.in[0]].width,
          .group = e.shape().group(),
          .parts = e.shape().degree,
          .softcap = node.attributes.softcap};
}

void LowerCut(Emitter& e, const Node& node, const View& logits) {
  const VocabularyShape shape = LossShape(e, node);
  const View own = e.Scratch("own statistics", shape.rows * 3);
  const View all = e.Scratch("statistics", shape.parts * shape.rows * 3);
  CrossEntropyStatistics(e.builder(), shape, logits, e.In(node, 1), own);
  AllGather(e.builder(), program::Group::kTensor, own, all);
  CrossEntropyFinish(e.builder(), shape, logits, e.In(node, 1), all, e.Scalars(), e.Loss());
}

class ForwardOfLoss : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId dlogits = tape.Make(node.in[0]);
    graph.Add({NodeKind::kLossBackward, node.in, {dlogits}, -1, node.attributes, Phase::kInput});
    tape.Contribute(node.in[0], dlogits);
  }
  void Lower(Emitter& e, const Node& node) const override {
    if (e.shape().degree > 1) return LowerCut(e, node, e.In(node, 0));
    CrossEntropyLoss(e.builder(), LossShape(e, node), e.In(node, 0), e.In(node, 1), e.Loss());
  }
};

class BackwardOfLoss : public NodeRule {
 public:
  int in_place(const Node& /*node*/) const override { return 0; }
  void Lower(Emitter& e, const Node& node) const override {
    if (e.shape().degree > 1) return LowerCut(e, node, e.Out(node, 0));
    CrossEntropy(e.builder(), LossShape(e, node), e.Out(node, 0), e.In(node, 1), e.Scalars(),
                 e.Loss());
  }
};

}  // namespace

void Loss(Graph& graph, ValueId logits, ValueId targets, double softcap) {
  graph.Add({NodeKind::kLoss,
             {graph.As(logits, Layout::kColumns), targets},
             {},
             -1,
             {.softcap = softcap}});
}

const NodeRule& LossRule() {
  static const ForwardOfLoss rule;
  return rule;
}
const NodeRule& LossBackwardRule() {
  static const BackwardOfLoss rule;
  return rule;
}

}  // namespace strata::model
