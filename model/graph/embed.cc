// Rows of a table by token; backward adds rows to the table's gradient.
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

VocabularyShape TableShape(const Emitter& emitter, const Node& node) {
  const Weight& table = emitter.graph().weights[node.weight];
  const PassShape& shape = emitter.shape();
  const int64_t whole = table.rows();
  return {.rows = emitter.rows(),
          .vocab = program::ShareOf(whole, shape.degree),
          .whole = whole,
          .channels = table.columns(),
          .group = shape.group(),
          .parts = shape.degree,
          .scale = node.attributes.scale};
}

class ForwardOfEmbed : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    if (!graph.weights[node.weight].trainable) return;
    graph.Add({NodeKind::kEmbedGradient,
               {node.in[0], tape.Gradient(node.out[0])},
               {},
               node.weight,
               node.attributes,
               Phase::kWeight});
  }
  // A rank looks up the tokens of its part of the vocabulary; the others' rows are zeros.
  void Lower(Emitter& emitter, const Node& node) const override {
    EmbeddingForward(emitter.builder(), TableShape(emitter, node), emitter.In(node, 0),
                     emitter.Weight(node), emitter.Out(node, 0));
  }
};

class GradientOfEmbed : public NodeRule {
 public:
  void Lower(Emitter& emitter, const Node& node) const override {
    EmbeddingBackward(emitter.builder(), TableShape(emitter, node), emitter.In(node, 0),
                      emitter.In(node, 1), emitter.Gradient(node));
  }
};

}  // namespace

ValueId Embed(Graph& graph, ValueId tokens, WeightId table, double scale, std::string name) {
  const ValueId y = graph.Make(std::move(name), graph.weights[table].columns(), Layout::kPartial);
  graph.Add({NodeKind::kEmbed, {tokens}, {y}, table, {.scale = scale}});
  return y;
}

const NodeRule& EmbedRule() {
  static const ForwardOfEmbed rule;
  return rule;
}
const NodeRule& EmbedGradientRule() {
  static const GradientOfEmbed rule;
  return rule;
}

}  // namespace strata::model
