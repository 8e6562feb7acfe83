#include "program/builder/pipeline_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

constexpr PassKind kKinds[] = {PassKind::kForward, PassKind::kBackward, PassKind::kBackwardWeight};

absl::Status CheckOptions(const LayerGraph& graph, const PipelineOptions& options) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.stages < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pipeline has at least 2 stages, not ", schedule.stages));
  }
  if (options.tensor < 1) return absl::InvalidArgumentError("tensor degree below 1");
  if (!options.scratch) return absl::InvalidArgumentError("no scratch formula");
  for (const ParameterSet& set : graph.sets) {
    if (!set.trainable) {
      return absl::InvalidArgumentError(
          absl::StrCat("set ", set.name, " is frozen: pipelines train all sets"));
    }
  }
  bool splits = false;
  for (const Layer& layer : graph.layers) splits |= layer.templates.backward_weight >= 0;
  if (schedule.split() && !splits) {
    return absl::InvalidArgumentError(
        "zero-bubble schedules need layers whose backward is split, and these have none");
  }
  return absl::OkStatus();
}

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

class Planner {
 public:
  Planner(LayerGraph graph, const PipelineOptions& options)
      : plan_{.graph = std::move(graph), .options = options} {}

  absl::StatusOr<PipelinePlan> Run() {
    RETURN_IF_ERROR(CheckOptions(plan_.graph, plan_.options));
    for (ParameterSet& set : plan_.graph.sets) FlattenSet(set, 1);
    ASSIGN_OR_RETURN(const Schedule schedule, BuildSchedule(plan_.options.schedule));
    RETURN_IF_ERROR(AssignLayers());
    RETURN_IF_ERROR(AssignSets());
    for (int r = 0; r < plan_.stages(); ++r) AddPasses(r, schedule.stages[r]);
    AddTiedReduction(schedule);
    std::stable_sort(plan_.order.begin(), plan_.order.end(),
                     [](const PipelineEvent& a, const PipelineEvent& b) {
                       return std::tie(a.time, a.kind, a.stage, a.receiver) <
                              std::tie(b.time, b.kind, b.stage, b.receiver);
                     });
    return std::move(plan_);
  }

 private:
  absl::Status AssignLayers() {
    const int layers = static_cast<int>(plan_.graph.layers.size());
    const int count = plan_.virtual_stages();
    std::vector<int>& assigned = plan_.options.virtual_stages;
    if (layers < count) {
      return absl::InvalidArgumentError(
          absl::StrCat(layers, " layers are too few for ", count, " virtual stages"));
    }
    if (assigned.empty()) assigned = EvenVirtualStages(layers, count);
    if (static_cast<int>(assigned.size()) != layers) {
      return absl::InvalidArgumentError(
          absl::StrCat("virtual stages of ", assigned.size(), " layers, there are ", layers));
    }
    plan_.layers.assign(count, {0, 0});
    int next = 0;  // first layer not taken
    for (int s = 0; s < count; ++s) {
      plan_.layers[s].first = next;
      while (next < layers && assigned[next] == s) ++next;
      plan_.layers[s].second = next;
      if (plan_.layers[s].first == next) {
        return absl::InvalidArgumentError(absl::StrCat(
            "virtual stage ", s, " has no layer, or layers' virtual stages do not ascend"));
      }
    }
    if (next < layers) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", plan_.graph.layers[next].name,
                                                     " has no virtual stage of this pipeline"));
    }
    return CheckForwards();
  }

  // Only the last layer may have no forward (the head, whose backward does all).
  absl::Status CheckForwards() const {
    for (size_t l = 0; l + 1 < plan_.graph.layers.size(); ++l) {
      if (plan_.graph.layers[l].templates.forward < 0) {
        return absl::InvalidArgumentError(absl::StrCat("layer ", plan_.graph.layers[l].name,
                                                       " has no forward and is not the last"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AssignSets() {
    plan_.sets.resize(plan_.stages());
    for (int s = 0; s < plan_.virtual_stages(); ++s) {
      for (int l = plan_.layers[s].first; l < plan_.layers[s].second; ++l) {
        RETURN_IF_ERROR(AddLayerSets(s % plan_.stages(), plan_.graph.layers[l], l));
      }
    }
    RETURN_IF_ERROR(MarkTied());
    for (int r = 0; r < plan_.stages(); ++r) {
      int64_t counted = 0;
      for (const StageSet& set : plan_.sets[r]) counted += plan_.Counts(r, set);
      plan_.columns = std::max(plan_.columns, 1 + counted);
    }
    return absl::OkStatus();
  }

  absl::Status AddLayerSets(int stage, const Layer& layer, int index) {
    std::vector<StageSet>& sets = plan_.sets[stage];
    for (size_t i = 0; i < layer.sets.size(); ++i) {
      auto found = std::find_if(sets.begin(), sets.end(),
                                [&](const StageSet& set) { return set.index == layer.sets[i]; });
      if (found == sets.end()) found = sets.insert(sets.end(), {.index = layer.sets[i]});
      for (const PassKind kind : kKinds) {
        const int tmpl = plan_.TemplateOf(index, kind);
        if (tmpl < 0) continue;
        ASSIGN_OR_RETURN(const std::optional<Partial> mark,
                         GradientMark(plan_.graph.templates[tmpl], static_cast<int>(i)));
        if (!mark.has_value()) continue;
        if (found->producers > 0 && found->partial != *mark) {
          return absl::InvalidArgumentError(
              absl::StrCat("gradients of set ", plan_.graph.sets[found->index].name,
                           " are partial sums in some templates and not in others"));
        }
        found->partial = *mark;
        ++found->producers;
      }
      found->tensor_sharded =
          plan_.options.tensor > 1 && (found->partial & PartialOver(Group::kTensor)) == 0;
    }
    return absl::OkStatus();
  }

  // Sets on several stages: only the first and the last can exchange gradients.
  absl::Status MarkTied() {
    std::vector<std::vector<int>> holders(plan_.graph.sets.size());
    for (int r = 0; r < plan_.stages(); ++r) {
      for (const StageSet& set : plan_.sets[r]) {
        holders[set.index].push_back(r);
        if (set.producers == 0) {
          return absl::InvalidArgumentError(absl::StrCat("set ", plan_.graph.sets[set.index].name,
                                                         " has no gradient on stage ", r));
        }
      }
    }
    for (size_t s = 0; s < holders.size(); ++s) {
      if (holders[s].size() < 2) continue;
      if (holders[s] != std::vector<int>{0, plan_.stages() - 1}) {
        return absl::InvalidArgumentError(
            absl::StrCat("set ", plan_.graph.sets[s].name,
                         " is on several stages: only the first and the last can share sets"));
      }
      for (const int r : holders[s]) {
        for (StageSet& set : plan_.sets[r]) {
          if (set.index == static_cast<int>(s)) set.partial |= PartialOver(Group::kEmbedding);
        }
      }
    }
    return absl::OkStatus();
  }

  void AddPasses(int stage, const std::vector<ScheduledPass>& passes) {
    const int stages = plan_.stages();
    for (const ScheduledPass& pass : passes) {
      plan_.order.push_back({.time = pass.end, .stage = stage, .pass = pass});
      const bool forward = pass.kind == PassKind::kForward;
      const int peer = pass.virtual_stage(stage, stages) + (forward ? 1 : -1);
      if (pass.kind == PassKind::kBackwardWeight || peer < 0 || peer >= plan_.virtual_stages()) {
        continue;
      }
      plan_.order.push_back({.time = pass.end,
                             .kind = PipelineEvent::Kind::kMessage,
                             .stage = stage,
                             .pass = pass,
                             .direction = forward ? Direction::kForward : Direction::kBackward,
                             .receiver = peer % stages,
                             .receiver_chunk = peer / stages});
    }
  }

  bool AddsToTied(int layer, PassKind kind) const {
    const int tmpl = plan_.TemplateOf(layer, kind);
    if (tmpl < 0) return false;
    for (const Formal& formal : plan_.graph.templates[tmpl].formals) {
      if (formal.role != Role::kGradients) continue;
      const int index = plan_.graph.layers[layer].sets[formal.index];
      for (const StageSet& set : plan_.sets[0]) {
        if (set.index == index && set.tied()) return true;
      }
    }
    return false;
  }

  // When the last producer on both stages has ended.
  void AddTiedReduction(const Schedule& schedule) {
    int64_t time = -1;
    for (const int r : {0, plan_.stages() - 1}) {
      for (const ScheduledPass& pass : schedule.stages[r]) {
        const auto& [first, end] = plan_.layers[pass.virtual_stage(r, plan_.stages())];
        for (int l = first; l < end; ++l) {
          if (AddsToTied(l, pass.kind)) time = std::max(time, pass.end);
        }
      }
    }
    if (time < 0) return;
    plan_.order.push_back({.time = time, .kind = PipelineEvent::Kind::kReduceTied});
  }

  PipelinePlan plan_;
};

}  // namespace

int PipelinePlan::TemplateOf(int layer, PassKind kind) const {
  const LayerTemplates& t = graph.layers[layer].templates;
  const bool split = options.schedule.split();
  switch (kind) {
    case PassKind::kForward:
      return t.forward;
    case PassKind::kBackward:
      // Layers that do not split at all (a head) do everything in the backward; those without a
      // gradient of their input (an embedding) do everything in the weights' part.
      return split && (t.backward_input >= 0 || t.backward_weight >= 0) ? t.backward_input
                                                                        : t.backward;
    case PassKind::kBackwardWeight:
      return split ? t.backward_weight : -1;
  }
  return -1;
}

std::vector<int> EvenVirtualStages(int layers, int count) {
  std::vector<int> assigned(layers, 0);
  const int inner = layers - 2;
  for (int l = 1; l <= inner; ++l) {
    assigned[l] = static_cast<int>(int64_t{l - 1} * count / inner);
  }
  if (layers > 0) assigned.back() = count - 1;
  return assigned;
}

absl::StatusOr<PipelinePlan> PlanPipeline(LayerGraph graph, const PipelineOptions& options) {
  return Planner(std::move(graph), options).Run();
}

}  // namespace strata::program
