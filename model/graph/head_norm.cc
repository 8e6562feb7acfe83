// RMS norms of every query and key head of packed q, k, v (Henry et al., 2020; Qwen 3, Gemma 3).
// Forward, again from the saved statistic, and backward.
#include <utility>

#include "model/graph/attention_shape.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

HeadNormShape HeadShapeOf(const Emitter& e, const Node& node) {
  const AttentionShape heads = AttentionShapeOf(e, node);
  return {.rows = e.rows(),
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_size = heads.head_size,
          .plus_one = node.attributes.plus_one,
          .type = heads.type};
}

class ForwardOfHeadNorm : public NodeRule {
 public:
  int statistic() const override { return 1; }
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    const ValueId dx = tape.Make(x);
    graph.Add({.kind = NodeKind::kHeadNormBackward,
               .in = {tape.Gradient(node.out[0]), x, node.out[1]},
               .out = {dx},
               .weight = node.weight,
               .attributes = node.attributes,
               .phase = Phase::kInput,
               .second = node.second});
    tape.Contribute(x, dx);
  }
  void Lower(Emitter& e, const Node& node) const override {
    HeadNormForward(e.builder(), HeadShapeOf(e, node), node.attributes.epsilon, e.In(node, 0),
                    e.Weight(node), e.Weight(node.second), e.Out(node, 0), e.Out(node, 1));
  }
};

class ReplayOfHeadNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    HeadNormReplay(e.builder(), HeadShapeOf(e, node), e.In(node, 0), e.Weight(node),
                   e.Weight(node.second), e.In(node, 1), e.Out(node, 0));
  }
};

class BackwardOfHeadNorm : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const bool trains = e.graph().Trains(node);
    HeadNormBackward(e.builder(), HeadShapeOf(e, node), e.In(node, 0), e.In(node, 1),
                     e.Weight(node), e.Weight(node.second), e.In(node, 2), e.Out(node, 0),
                     trains ? e.Gradient(node) : View{}, trains ? e.Gradient(node.second) : View{});
  }
};

}  // namespace

ValueId HeadNorm(Graph& graph, ValueId qkv, WeightId queries, WeightId keys, const Heads& heads,
                 const NormOptions& options, std::string name, std::string statistic) {
  const ValueId x = graph.As(qkv, Layout::kColumns);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, Layout::kColumns);
  const ValueId rstd =
      graph.MakeStatistic(std::move(statistic), heads.heads + heads.kv_heads, Layout::kColumns);
  graph.Add({.kind = NodeKind::kHeadNorm,
             .in = {x},
             .out = {y, rstd},
             .weight = queries,
             .attributes = {.heads = heads.heads,
                            .kv_heads = heads.kv_heads,
                            .head_size = heads.head_size,
                            .epsilon = options.epsilon,
                            .plus_one = options.plus_one},
             .second = keys});
  return y;
}

const NodeRule& HeadNormRule() {
  static const ForwardOfHeadNorm rule;
  return rule;
}
const NodeRule& HeadNormReplayRule() {
  static const ReplayOfHeadNorm rule;
  return rule;
}
const NodeRule& HeadNormBackwardRule() {
  static const BackwardOfHeadNorm rule;
  return rule;
}

}  // namespace strata::model
