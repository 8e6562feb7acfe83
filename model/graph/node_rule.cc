#include "model/graph/node_rule.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "model/graph/nodes.h"

namespace strata::model {

ValueId Tape::Gradient(ValueId value) const {
  const auto found = gradients_.find(value);
  return found == gradients_.end() ? -1 : found->second;
}

void Tape::Contribute(ValueId value, ValueId gradient) {
  const ValueId before = Gradient(value);
  if (before >= 0) {
    const ValueId sum = Make(value);
    graph_.Add({NodeKind::kAdd, {before, gradient}, {sum}, -1, {}, Phase::kInput});
    gradient = sum;
  }
  Replace(value, gradient);
}

ValueId Tape::Make(ValueId value) {
  const Value& of = graph_.values[value];
  Layout layout = of.layout;
  if (layout == Layout::kWhole) {
    layout = Layout::kPartial;
  } else if (layout == Layout::kPartial) {
    layout = Layout::kWhole;
  }
  const bool streamed = of.streamed;
  const program::DType type = of.type;
  const ValueId made = graph_.Make(absl::StrCat("d_", of.name), of.width, layout);
  graph_.values[made].streamed = streamed;
  graph_.values[made].type = type;
  return made;
}

void NodeRule::Differentiate(Graph& /*graph*/, const Node& /*node*/, Tape& /*tape*/) const {
  STRATA_CHECK(false);  // a backward node
}

void NodeRule::Lower(Emitter& /*emitter*/, const Node& /*node*/) const {
  STRATA_CHECK(false);  // the lowering of chunks does it
}

const NodeRule& RuleOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kEmbed:
      return EmbedRule();
    case NodeKind::kEmbedGradient:
      return EmbedGradientRule();
    case NodeKind::kPositions:
      return PositionsRule();
    case NodeKind::kPositionsGradient:
      return PositionsGradientRule();
    case NodeKind::kNorm:
      return NormRule();
    case NodeKind::kNormReplay:
      return NormReplayRule();
    case NodeKind::kAddNorm:
      return AddNormRule();
    case NodeKind::kNormBackward:
      return NormBackwardRule();
    case NodeKind::kHeadNorm:
      return HeadNormRule();
    case NodeKind::kHeadNormReplay:
      return HeadNormReplayRule();
    case NodeKind::kHeadNormBackward:
      return HeadNormBackwardRule();
    case NodeKind::kLinear:
      return LinearRule();
    case NodeKind::kLinearInputGradient:
      return LinearInputGradientRule();
    case NodeKind::kLinearWeightGradient:
      return LinearWeightGradientRule();
    case NodeKind::kBias:
      return BiasRule();
    case NodeKind::kBiasGradient:
      return BiasGradientRule();
    case NodeKind::kRope:
      return RopeRule();
    case NodeKind::kAttention:
      return AttentionRule();
    case NodeKind::kAttentionBackward:
      return AttentionBackwardRule();
    case NodeKind::kGlu:
      return GluRule();
    case NodeKind::kGluBackward:
      return GluBackwardRule();
    case NodeKind::kActivate:
      return ActivateRule();
    case NodeKind::kActivateBackward:
      return ActivateBackwardRule();
    case NodeKind::kSoftcap:
      return SoftcapRule();
    case NodeKind::kAdd:
      return AddRule();
    case NodeKind::kScale:
      return ScaleRule();
    case NodeKind::kAdapt:
      return AdaptRule();
    case NodeKind::kAdaptInputGradient:
      return AdaptInputGradientRule();
    case NodeKind::kAdaptWeightGradient:
      return AdaptWeightGradientRule();
    case NodeKind::kLoss:
      return LossRule();
    case NodeKind::kLossBackward:
      return LossBackwardRule();
    case NodeKind::kRedistribute:
      return RedistributeRule();
  }
  STRATA_CHECK(false);
  return AddRule();
}

}  // namespace strata::model
