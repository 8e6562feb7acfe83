// What a kind of node is: its derivative, what repeating it costs, which input it may overwrite,
// its ops. One object per kind, without state; a file per forward kind holds its own and its
// backward's.
#ifndef STRATA_MODEL_GRAPH_NODE_RULE_H_
#define STRATA_MODEL_GRAPH_NODE_RULE_H_

#include <cstdint>
#include <map>
#include <string>

#include "model/graph/emitter.h"
#include "model/graph/graph.h"

namespace strata::model {

// Gradients of values, while the forward's nodes are gone through backwards.
class Tape {
 public:
  explicit Tape(Graph& graph) : graph_(graph) {}

  // -1: none has come yet.
  ValueId Gradient(ValueId value) const;
  // One more contribution to it.
  void Contribute(ValueId value, ValueId gradient);
  // `gradient` contains all that has come so far.
  void Replace(ValueId value, ValueId gradient) { gradients_[value] = gradient; }
  // A fresh value for the gradient of `value`, in the layout that is its conjugate: of what all
  // ranks hold whole each has a partial gradient, and the reverse.
  ValueId Make(ValueId value);

 private:
  Graph& graph_;
  std::map<ValueId, ValueId> gradients_;
};

class NodeRule {
 public:
  virtual ~NodeRule() = default;

  // Adds what makes the gradients of the node's inputs and weight from those of its outputs, a
  // weight's before an input's. Only forward nodes have it.
  virtual void Differentiate(Graph& graph, const Node& node, Tape& tape) const;
  // Of one more execution, per row of the pass and all ranks together, at this sequence length.
  // 0: elementwise work, whose time is bytes.
  virtual double Flops(const Graph& /*graph*/, const Node& /*node*/, int64_t /*sequence*/) const {
    return 0;
  }
  // The output that is a few numbers per row which spare a replay work or are needed beside it;
  // -1: none.
  virtual int statistic() const { return -1; }
  // The input whose bytes output 0 takes over (a copy of it where it is still needed); -1: none.
  virtual int in_place(const Node& /*node*/) const { return -1; }
  // Whether rows can be done in any portions.
  virtual bool by_rows() const { return true; }
  // Appends the ops for the emitter's current rows.
  virtual void Lower(Emitter& emitter, const Node& node) const;
};

const NodeRule& RuleOf(NodeKind kind);

// The rules, each in the file of its forward kind.
const NodeRule& EmbedRule();
const NodeRule& EmbedGradientRule();
const NodeRule& PositionsRule();
const NodeRule& PositionsGradientRule();
const NodeRule& NormRule();
const NodeRule& NormReplayRule();
const NodeRule& AddNormRule();
const NodeRule& NormBackwardRule();
const NodeRule& HeadNormRule();
const NodeRule& HeadNormReplayRule();
const NodeRule& HeadNormBackwardRule();
const NodeRule& LinearRule();
const NodeRule& LinearInputGradientRule();
const NodeRule& LinearWeightGradientRule();
const NodeRule& BiasRule();
const NodeRule& BiasGradientRule();
const NodeRule& RopeRule();
const NodeRule& AttentionRule();
const NodeRule& AttentionBackwardRule();
const NodeRule& GluRule();
const NodeRule& GluBackwardRule();
const NodeRule& ActivateRule();
const NodeRule& ActivateBackwardRule();
const NodeRule& SoftcapRule();
const NodeRule& AddRule();
const NodeRule& ScaleRule();
const NodeRule& AdaptRule();
const NodeRule& AdaptInputGradientRule();
const NodeRule& AdaptWeightGradientRule();
const NodeRule& LossRule();
const NodeRule& LossBackwardRule();
const NodeRule& RedistributeRule();

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_NODE_RULE_H_
