#include "program/compose/sources/stage.h"

#include <algorithm>
#include <cstddef>

namespace strata::program {

std::vector<Use> UsesOf(const LayerGraph& graph, const Walk& walk, const WalkPass& pass) {
  std::vector<Use> uses;
  const bool forward = pass.kind == PassKind::kForward;
  for (int i = 0; i < pass.end - pass.first; ++i) {
    const int layer = forward ? pass.first + i : pass.end - 1 - i;
    const int called = walk.TemplateOf(graph, layer, pass.kind);
    if (called < 0) continue;
    uses.push_back({pass.kind, pass.chunk, pass.micro_batch, layer, called});
  }
  return uses;
}

std::vector<int> Trainable(const Stage& stage) {
  const std::vector<SetPlan>& sets = stage.sets.sets;
  std::vector<int> order;
  for (size_t s = 0; s < sets.size(); ++s) {
    if (sets[s].trainable) order.push_back(static_cast<int>(s));
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return sets[a].index < sets[b].index; });
  return order;
}

std::vector<int> InOrderOfUse(const Stage& stage) {
  std::vector<int> first(stage.graph.sets.size(), 0);  // layer
  for (int l = static_cast<int>(stage.graph.layers.size()) - 1; l >= 0; --l) {
    for (const int set : stage.graph.layers[l].sets) first[set] = l;
  }
  const auto place = [&](int set) {
    const SetPlan& of = stage.sets.sets[set];
    return std::pair(first[of.index], of.small ? 0 : 1);
  };
  std::vector<int> order = Trainable(stage);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  return order;
}

std::vector<Use> UsesOf(const LayerGraph& graph, const Walk& walk, int stage) {
  std::vector<Use> uses;
  for (const WalkEvent& event : walk.events) {
    if (event.kind != WalkEvent::Kind::kPass || event.stage != stage) continue;
    for (const Use& use : UsesOf(graph, walk, event.pass)) uses.push_back(use);
  }
  return uses;
}

}  // namespace strata::program
