#include "model/passes/layer_templates.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/passes/differentiate.h"
#include "model/passes/linearise.h"
#include "model/passes/lower.h"

namespace strata::model {
namespace {

using program::LayerTemplates;
using program::Role;

class LayerEmitter {
 public:
  LayerEmitter(Graph graph, const LayerVariant& variant, const LayerShapes& shapes,
               const std::vector<WeightPlace>& weights, std::vector<program::Template>& templates)
      : graph_(std::move(graph)),
        variant_(variant),
        shapes_(shapes),
        weights_(weights),
        templates_(templates) {
    Differentiate(graph_);
    live_ = LiveBackward(graph_, variant.needs_input_gradient);
    has_backward_ = std::any_of(live_.begin(), live_.end(), [&](NodeId id) {
      return graph_.nodes[id].kind != NodeKind::kLossBackward;
    });
    // Without a forward template there is nobody to save.
    if (has_backward_ && graph_.output >= 0) {
      saved_ = ChooseSaved(graph_, ForwardReads(graph_, live_), variant.recompute);
    }
  }

  LayerTemplates Run();

 private:
  // Values that come from outside, and those saved.
  Bindings Outside(bool saved) const;
  std::vector<Demand> ForwardDemands() const;
  int Emit(const char* pass, const PassShape& shape, const std::vector<Demand>& demands,
           const std::set<ValueId>& at_hand, const Bindings& bindings);
  int EmitForward(const char* pass, const PassShape& shape, bool saves);
  int EmitLogits(const char* pass, const PassShape& shape);
  int EmitBackward();
  // What weight nodes read that backward-input hands over.
  std::set<ValueId> Stashed() const;
  int EmitBackwardInput(const std::set<ValueId>& stash);
  int EmitBackwardWeight(const std::set<ValueId>& stash);
  void BindStash(const std::set<ValueId>& stash, Bindings& bindings) const;

  Graph graph_;
  const LayerVariant& variant_;
  const LayerShapes& shapes_;
  const std::vector<WeightPlace>& weights_;
  std::vector<program::Template>& templates_;
  std::vector<NodeId> live_;
  bool has_backward_ = false;
  std::set<ValueId> saved_;
};

Bindings LayerEmitter::Outside(bool saved) const {
  Bindings bindings;
  const ValueId count = static_cast<ValueId>(graph_.values.size());
  for (ValueId value = 0; value < count; ++value) {
    const Value& given = graph_.values[value];
    if (given.given != Role::kAny) bindings[value] = {given.given, 0, given.name, true};
  }
  int index = 0;
  for (const ValueId value : saved ? saved_ : std::set<ValueId>{}) {
    bindings[value] = {Role::kSaved, index++, graph_.values[value].name, true};
  }
  return bindings;
}

std::vector<Demand> LayerEmitter::ForwardDemands() const {
  if (graph_.output >= 0) return {{.value = graph_.output}};
  return {{.node = graph_.forward_nodes - 1}};  // the loss
}

int LayerEmitter::Emit(const char* pass, const PassShape& shape, const std::vector<Demand>& demands,
                       const std::set<ValueId>& at_hand, const Bindings& bindings) {
  std::set<ValueId> whole;
  for (const auto& [value, binding] : bindings) whole.insert(value);
  std::vector<Loop> loops = Linearise(graph_, demands, at_hand, whole);
  FuseAddNorm(graph_, loops);
  WidenStreamed(graph_, loops);
  templates_.push_back(
      Lower(graph_, shape, weights_, absl::StrCat(graph_.name, " ", pass), loops, bindings));
  return static_cast<int>(templates_.size()) - 1;
}

int LayerEmitter::EmitForward(const char* pass, const PassShape& shape, bool saves) {
  Bindings bindings = Outside(saves);
  if (graph_.output >= 0) bindings[graph_.output] = {Role::kOutput, 0, "output", true};
  return Emit(pass, shape, ForwardDemands(), {}, bindings);
}

int LayerEmitter::EmitLogits(const char* pass, const PassShape& shape) {
  Bindings bindings = Outside(false);
  bindings[graph_.logits] = {Role::kLogits, 0, "logits", true};
  return Emit(pass, shape, {{.value = graph_.logits}}, {}, bindings);
}

int LayerEmitter::EmitBackward() {
  Bindings bindings = Outside(true);
  const Binding stream{Role::kGradientStream, 0, "gradient", false};
  if (graph_.output_gradient >= 0) bindings[graph_.output_gradient] = stream;
  if (graph_.input >= 0 && variant_.needs_input_gradient) bindings[graph_.input_gradient] = stream;
  std::vector<Demand> demands;
  for (const NodeId id : live_) demands.push_back({.node = id});
  return Emit("backward", shapes_.train, demands, saved_, bindings);
}

std::set<ValueId> LayerEmitter::Stashed() const {
  std::set<ValueId> stash;
  for (const NodeId id : live_) {
    if (graph_.nodes[id].phase != Phase::kWeight) continue;
    for (const ValueId in : graph_.nodes[id].in) {
      const ValueId read = graph_.Kept(in);
      if (graph_.values[read].producer < 0 || saved_.contains(read)) continue;
      const bool is_gradient = !graph_.IsForward(read);
      if (is_gradient || ReplayFlops(graph_, read, saved_, 1) > 0) stash.insert(read);
    }
  }
  return stash;
}

void LayerEmitter::BindStash(const std::set<ValueId>& stash, Bindings& bindings) const {
  int index = 0;
  for (const ValueId value : stash) {
    bindings[value] = {Role::kStash, index++, graph_.values[value].name, true};
  }
}

int LayerEmitter::EmitBackwardInput(const std::set<ValueId>& stash) {
  Bindings bindings = Outside(true);
  BindStash(stash, bindings);
  if (graph_.input >= 0 && variant_.needs_input_gradient) {
    bindings[graph_.input_gradient] = {Role::kInputGradient, 0, "input gradient", true};
  }
  std::vector<Demand> demands;
  for (const NodeId id : live_) {
    const Node& node = graph_.nodes[id];
    if (node.phase == Phase::kInput) demands.push_back({.node = id});
    if (node.phase != Phase::kWeight) continue;
    for (const ValueId in : node.in) {
      const ValueId read = graph_.Kept(in);
      if (graph_.IsForward(read) && stash.contains(read)) demands.push_back({.value = read});
    }
  }
  if (demands.empty()) return -1;
  return Emit("backward-input", shapes_.train, demands, saved_, bindings);
}

int LayerEmitter::EmitBackwardWeight(const std::set<ValueId>& stash) {
  Bindings bindings = Outside(true);
  BindStash(stash, bindings);
  std::vector<Demand> demands;
  for (const NodeId id : live_) {
    if (graph_.nodes[id].phase == Phase::kWeight) demands.push_back({.node = id});
  }
  if (demands.empty()) return -1;
  std::set<ValueId> at_hand = saved_;
  at_hand.insert(stash.begin(), stash.end());
  return Emit("backward-weight", shapes_.train, demands, at_hand, bindings);
}

LayerTemplates LayerEmitter::Run() {
  LayerTemplates made;
  if (graph_.output >= 0) made.forward = EmitForward("forward", shapes_.train, true);
  if (has_backward_) made.backward = EmitBackward();
  if (has_backward_ && variant_.split_backward && graph_.output >= 0) {
    const std::set<ValueId> stash = Stashed();
    made.backward_input = EmitBackwardInput(stash);
    made.backward_weight = EmitBackwardWeight(stash);
  }
  const bool same = made.forward >= 0 && saved_.empty();
  made.evaluate = same ? made.forward : EmitForward("evaluate", shapes_.train, false);
  if (!shapes_.decodes) return made;
  if (graph_.logits >= 0) {
    made.prefill = EmitLogits("prefill", shapes_.prefill);
    made.decode = EmitLogits("decode", shapes_.decode);
  } else {
    made.prefill = EmitForward("prefill", shapes_.prefill, false);
    made.decode = EmitForward("decode", shapes_.decode, false);
  }
  return made;
}

}  // namespace

LayerTemplates EmitLayer(Graph graph, const LayerVariant& variant, const LayerShapes& shapes,
                         const std::vector<WeightPlace>& weights,
                         std::vector<program::Template>& templates) {
  return LayerEmitter(std::move(graph), variant, shapes, weights, templates).Run();
}

}  // namespace strata::model
