#include "model/graph/graph.h"

#include "common/check.h"

namespace strata::model {

ValueId Graph::Given(std::string value, int64_t width, Layout layout, program::Role role) {
  const ValueId id = Make(std::move(value), width, layout);
  values[id].given = role;
  const bool counted = role == program::Role::kTokens || role == program::Role::kTargets ||
                       role == program::Role::kPositions || role == program::Role::kConstants;
  if (counted) values[id].type = program::DType::kI32;
  return id;
}

ValueId Graph::MakeStatistic(std::string value, int64_t width, Layout layout) {
  const ValueId id = Make(std::move(value), width, layout);
  values[id].type = program::DType::kF32;
  return id;
}

ValueId Graph::Make(std::string value, int64_t width, Layout layout) {
  Value made;
  made.name = std::move(value);
  made.width = width;
  made.layout = layout;
  made.type = type;
  values.push_back(std::move(made));
  return static_cast<ValueId>(values.size()) - 1;
}

WeightId Graph::Use(Weight weight) {
  weights.push_back(std::move(weight));
  return static_cast<WeightId>(weights.size()) - 1;
}

NodeId Graph::Add(Node node) {
  const NodeId id = static_cast<NodeId>(nodes.size());
  for (const ValueId value : node.out) {
    STRATA_CHECK(values[value].producer < 0);
    values[value].producer = id;
  }
  nodes.push_back(std::move(node));
  return id;
}

ValueId Graph::As(ValueId value, Layout layout) {
  if (degree == 1 || values[value].layout == layout) return value;
  const auto [found, added] = redistributed_.try_emplace({value, layout}, -1);
  if (!added) return found->second;
  const bool gathers = values[value].layout == Layout::kRows && layout == Layout::kWhole;
  const bool scatters = values[value].layout == Layout::kPartial && layout == Layout::kRows;
  STRATA_CHECK(gathers || scatters);
  const ValueId made = Make(values[value].name, values[value].width, layout);
  values[made].type = values[value].type;
  Node node;
  node.kind = NodeKind::kRedistribute;
  node.in = {value};
  node.out = {made};
  Add(std::move(node));
  return found->second = made;
}

ValueId Graph::Source(ValueId value) const {
  const NodeId producer = values[value].producer;
  const bool moved = producer >= 0 && nodes[producer].kind == NodeKind::kRedistribute;
  return moved ? nodes[producer].in[0] : value;
}

ValueId Graph::Kept(ValueId value) const {
  const ValueId source = Source(value);
  return values[source].layout == Layout::kPartial ? value : source;
}

}  // namespace strata::model
