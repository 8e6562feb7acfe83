#include "program/compose/sources/stage.h"

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

std::vector<Use> UsesOf(const LayerGraph& graph, const Walk& walk, int stage) {
  std::vector<Use> uses;
  for (const WalkEvent& event : walk.events) {
    if (event.kind != WalkEvent::Kind::kPass || event.stage != stage) continue;
    for (const Use& use : UsesOf(graph, walk, event.pass)) uses.push_back(use);
  }
  return uses;
}

}  // namespace strata::program
