#include "program/compose/plan_sets.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/ir/unified.h"

namespace strata::program {
namespace {

constexpr PassKind kKinds[] = {PassKind::kForward, PassKind::kBackward, PassKind::kBackwardWeight};

// What a template adds to, by index in Layer::sets: the mark its ops make; absent where it has no
// such gradient.
absl::StatusOr<std::optional<Partial>> GradientMark(const Template& tmpl, int index) {
  std::optional<Partial> mark;
  for (size_t f = 0; f < tmpl.formals.size(); ++f) {
    if (tmpl.formals[f].role != Role::kGradients || tmpl.formals[f].index != index) continue;
    for (const Op& op : tmpl.ops) {
      for (const Operand& operand : op.operands) {
        if (operand.slot != static_cast<int>(f)) continue;
        if (mark.value_or(operand.partial) != operand.partial) {
          return absl::InvalidArgumentError(
              absl::StrCat("template ", tmpl.name, ": ", tmpl.formals[f].name,
                           " is in part a partial sum and in part not"));
        }
        mark = operand.partial;
      }
    }
  }
  return mark;
}

bool OnlyVectors(const ParameterSet& set) {
  return std::all_of(set.tensors.begin(), set.tensors.end(),
                     [](const TensorSpec& tensor) { return tensor.shape.size() < 2; });
}

class SetPlanner {
 public:
  SetPlanner(const LayerGraph& graph, const Plan& plan, const Walk& walk)
      : graph_(graph), plan_(plan), walk_(walk) {}

  absl::StatusOr<SetPlans> Run() {
    if (plan_.places.uses_unified()) RETURN_IF_ERROR(CheckUnified());
    result_.stages.resize(walk_.stages);
    for (int r = 0; r < walk_.stages; ++r) result_.stages[r].stage = r;
    for (size_t v = 0; v < walk_.layers.size(); ++v) {
      for (int l = walk_.layers[v].first; l < walk_.layers[v].second; ++l) {
        RETURN_IF_ERROR(AddLayer(result_.stages[walk_.StageOf(static_cast<int>(v))], l));
      }
    }
    for (StagePlan& stage : result_.stages) {
      for (SetPlan& set : stage.sets) RETURN_IF_ERROR(Decide(stage.stage, set));
    }
    for (StagePlan& stage : result_.stages) AssignHomes(stage);
    RETURN_IF_ERROR(MarkTied());
    AssignColumns();
    return std::move(result_);
  }

 private:
  // Of what is kept in one version, whole, and at one address.
  absl::Status CheckUnified() const {
    const auto refuse = [](const char* what) {
      return absl::InvalidArgumentError(absl::StrCat("unified memory ", what));
    };
    if (plan_.places.gradients.unified + plan_.places.activations.unified > 0) {
      return refuse("is for parameters and optimizer state, not for gradients or activations");
    }
    if (plan_.update == UpdatePolicy::kSpeculative) {
      return refuse("keeps one version of state, speculative updates need two: use deferred");
    }
    const Places& places = plan_.places;
    if (places.parameters.unified > 0 && places.optimizer.host + places.optimizer.ssd > 0) {
      return refuse("keeps parameters that the device updates: state is on device or unified");
    }
    if (places.parameters.unified > 0 && plan_.groups.shard > 1) {
      return refuse("is for parameters that are whole on every rank: use shard none");
    }
    return absl::OkStatus();
  }

  absl::Status AddLayer(StagePlan& stage, int layer) {
    const std::vector<int>& sets = graph_.layers[layer].sets;
    for (size_t i = 0; i < sets.size(); ++i) {
      auto found = std::find_if(stage.sets.begin(), stage.sets.end(),
                                [&](const SetPlan& set) { return set.index == sets[i]; });
      if (found == stage.sets.end()) found = stage.sets.insert(found, {.index = sets[i]});
      for (const PassKind kind : kKinds) {
        const int tmpl = walk_.TemplateOf(graph_, layer, kind);
        if (tmpl < 0) continue;
        ASSIGN_OR_RETURN(const std::optional<Partial> mark,
                         GradientMark(graph_.templates[tmpl], static_cast<int>(i)));
        if (!mark.has_value()) continue;
        if (found->producers > 0 && found->partial != *mark) {
          return absl::InvalidArgumentError(
              absl::StrCat("gradients of set ", graph_.sets[found->index].name,
                           " are partial sums in some templates and not in others"));
        }
        found->partial = *mark;
        ++found->producers;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Decide(int stage, SetPlan& set) const {
    const ParameterSet& of = graph_.sets[set.index];
    set.trainable = of.trainable;
    if (set.trainable && set.producers == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("set ", of.name, " has no gradient on stage ", stage));
    }
    set.small = OnlyVectors(of);
    set.cut_by_tensor = plan_.groups.tensor > 1 && (set.partial & PartialOver(Group::kTensor)) == 0;
    if (plan_.groups.data > 1) set.partial |= PartialOver(Group::kData);
    set.counted = set.trainable && of.counted_in_norm;
    const int parts = set.small ? 1 : plan_.groups.shard;
    if (plan_.shard >= ShardLevel::kOptimizer) set.state_parts = parts;
    if (plan_.shard >= ShardLevel::kGradients) {
      set.gradient_parts = parts;
      set.reduce = Reduce::kPerLeaf;
    }
    if (plan_.shard == ShardLevel::kParameters) set.parameter_parts = parts;
    return absl::OkStatus();
  }

  void AssignHomes(StagePlan& stage) const {
    std::vector<int64_t> parameters, gradients;
    for (const SetPlan& set : stage.sets) {
      const ParameterSet& of = graph_.sets[set.index];
      const int gradient_parts = std::max(set.gradient_parts, set.state_parts);
      parameters.push_back(of.bytes() / set.parameter_parts);
      gradients.push_back(set.trainable ? of.gradient_bytes() / gradient_parts : 0);
    }
    const std::vector<Home> p = HomesOf(plan_.places.parameters, parameters),
                            g = HomesOf(plan_.places.gradients, gradients);
    for (size_t s = 0; s < stage.sets.size(); ++s) {
      stage.sets[s].parameters = p[s];
      // Of what is whole on every rank but updated in parts, SSD holds the part: others' would be
      // written only to be read.
      if (p[s] == Home::kSsd) {
        stage.sets[s].parameter_parts =
            std::max(stage.sets[s].parameter_parts, stage.sets[s].state_parts);
      }
      stage.sets[s].gradients = g[s];
    }
    AssignRanges(stage);
    std::vector<int64_t> kept(graph_.layers.size(), 0);
    for (size_t v = 0; v < walk_.layers.size(); ++v) {
      if (walk_.StageOf(static_cast<int>(v)) != stage.stage) continue;
      for (int l = walk_.layers[v].first; l < walk_.layers[v].second; ++l) kept[l] = KeptBytes(l);
    }
    stage.activations = HomesOf(plan_.places.activations, kept);
  }

  int64_t UpdatedElements(const SetPlan& set) const {
    return set.trainable ? graph_.sets[set.index].elements / set.state_parts : 0;
  }

  void AssignRanges(StagePlan& stage) const {
    int64_t most = std::numeric_limits<int64_t>::max();
    if (plan_.places.beyond_device()) {
      // Ranges of weights in unified memory have pages of their own.
      const int64_t multiple = plan_.places.parameters.unified > 0 ? kUnifiedPage : kRangeElements;
      most = common::RoundUp(plan_.most_range_bytes() / 4, multiple);
    }
    std::vector<int64_t> states;
    for (SetPlan& set : stage.sets) {
      const int64_t elements = UpdatedElements(set);
      for (int64_t first = 0; first < elements;) {
        const int64_t count = std::min(most, elements - first);
        set.ranges.push_back({first, count});
        first += count;
        int64_t bytes = 0;
        for (const StateSpec& state : StatesOf(plan_, graph_.sets[set.index])) {
          bytes += BytesOf(state.format, count);
        }
        states.push_back(bytes);
      }
    }
    const std::vector<Home> homes = HomesOf(plan_.places.optimizer, states);
    size_t next = 0;
    for (SetPlan& set : stage.sets) {
      for (StateRange& range : set.ranges) range.home = homes[next++];
    }
  }

  // What the layer's forward keeps for its backward.
  int64_t KeptBytes(int layer) const {
    const int tmpl = walk_.TemplateOf(graph_, layer, PassKind::kBackward);
    int64_t bytes = 0;
    if (tmpl < 0) return bytes;
    for (const Formal& formal : graph_.templates[tmpl].formals) {
      if (formal.role == Role::kInput || formal.role == Role::kSaved) bytes += formal.bytes;
    }
    return bytes;
  }

  // Sets on several stages: only the first and the last can exchange gradients.
  absl::Status MarkTied() {
    std::vector<std::vector<int>> holders(graph_.sets.size());
    for (const StagePlan& stage : result_.stages) {
      for (const SetPlan& set : stage.sets) holders[set.index].push_back(stage.stage);
    }
    for (size_t s = 0; s < holders.size(); ++s) {
      if (holders[s].size() < 2) continue;
      if (holders[s] != std::vector<int>{0, walk_.stages - 1}) {
        return absl::InvalidArgumentError(
            absl::StrCat("set ", graph_.sets[s].name,
                         " is on several stages: only the first and the last can share sets"));
      }
      for (const int r : holders[s]) {
        for (SetPlan& set : result_.stages[r].sets) {
          if (set.index != static_cast<int>(s)) continue;
          set.saved = r == 0;
          if (!set.trainable) continue;
          set.partial |= PartialOver(Group::kEmbedding);
          set.counted &= r == 0;
        }
      }
    }
    return absl::OkStatus();
  }

  void AssignColumns() {
    std::vector<const SetPlan*> plans(graph_.sets.size(), nullptr);
    for (const StagePlan& stage : result_.stages) {
      for (const SetPlan& set : stage.sets) plans[set.index] = &set;
    }
    std::vector<int> columns(graph_.sets.size(), -1);
    for (const bool cut : {true, false}) {
      for (size_t s = 0; s < plans.size(); ++s) {
        if (plans[s] == nullptr || !plans[s]->trainable || plans[s]->cut_by_tensor != cut) continue;
        columns[s] = result_.columns++;
      }
      if (cut) result_.cut_columns = result_.columns;
    }
    for (StagePlan& stage : result_.stages) {
      for (SetPlan& set : stage.sets) set.column = columns[set.index];
    }
  }

  const LayerGraph& graph_;
  const Plan& plan_;
  const Walk& walk_;
  SetPlans result_;
};

}  // namespace

const SetPlan* StagePlan::Find(int index) const {
  for (const SetPlan& set : sets) {
    if (set.index == index) return &set;
  }
  return nullptr;
}

absl::StatusOr<SetPlans> PlanSets(const LayerGraph& graph, const Plan& plan, const Walk& walk) {
  return SetPlanner(graph, plan, walk).Run();
}

}  // namespace strata::program
