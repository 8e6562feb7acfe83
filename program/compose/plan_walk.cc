#include "program/compose/plan_walk.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

absl::Status CheckHome(const Plan& plan) {
  const auto refuse = [](const char* what) { return absl::InvalidArgumentError(what); };
  if (plan.beyond_device()) {
    if (plan.tier != Tier::kDevice) {
      return refuse("state at home beyond the device, and no device: kernels compute on the host");
    }
    const bool shared =
        plan.shard == ShardLevel::kParameters && plan.groups.shard == plan.groups.data;
    if (plan.groups.data > 1 && !shared) {
      return refuse(
          "state at home beyond the device: ranks of data must share all of it in one shard group "
          "(what else they exchange would lie in host memory, which groups do not reach)");
    }
  }
  if ((plan.home == Home::kSsd) != (plan.update != UpdatePolicy::kDeferred)) {
    return refuse("state on SSD is updated spooled or speculatively, other state deferred");
  }
  if (plan.home == Home::kSsd && plan.slabs < kLeastSlabs) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.slabs, " slabs, an update needs ", kLeastSlabs, " at once"));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const LayerGraph& graph, const Plan& plan) {
  const GroupSizes& groups = plan.groups;
  if (groups.data < 1 || groups.shard < 1 || groups.data % groups.shard != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shard group of ", groups.shard, " ranks in a data group of ", groups.data));
  }
  if (plan.shard == ShardLevel::kNone && groups.shard > 1) {
    return absl::InvalidArgumentError("a shard group, and nothing is sharded");
  }
  const int64_t shards = plan.virtual_shards;
  if (shards < 0 || (shards > 0 && shards % groups.data != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "virtual_shards ", shards, " is not a multiple of the data degree ", groups.data));
  }
  const int64_t multiple = (shards > 0 ? shards : groups.data) * graph.micro_batch;
  if (plan.global_batch < 1 || plan.global_batch % multiple != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("global batch ", plan.global_batch, " is not a multiple of ",
                     shards > 0 ? absl::StrCat("virtual_shards ", shards)
                                : absl::StrCat("the data degree ", groups.data),
                     " x micro-batch ", graph.micro_batch));
  }
  if (groups.world() > 1 && !plan.scratch) return absl::InvalidArgumentError("no scratch formula");
  if (groups.pipeline > 1 && plan.micro_order == MicroOrder::kLayerFirst) {
    return absl::InvalidArgumentError("layer_first: a pipeline orders micro-batches itself");
  }
  return CheckHome(plan);
}

bool Splits(const LayerGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(),
                     [](const Layer& layer) { return layer.templates.backward_weight >= 0; });
}

// Per virtual stage its layers.
absl::StatusOr<std::vector<std::pair<int, int>>> AssignLayers(const LayerGraph& graph,
                                                              const Plan& plan) {
  const int layers = static_cast<int>(graph.layers.size());
  const int count = plan.groups.pipeline * plan.virtual_stages;
  std::vector<int> assigned = plan.stage_of_layer;
  if (layers < count) {
    return absl::InvalidArgumentError(
        absl::StrCat(layers, " layers are too few for ", count, " virtual stages"));
  }
  if (assigned.empty()) assigned = EvenVirtualStages(layers, count);
  if (static_cast<int>(assigned.size()) != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtual stages of ", assigned.size(), " layers, there are ", layers));
  }
  std::vector<std::pair<int, int>> parts(count);
  int next = 0;  // first layer not taken
  for (int s = 0; s < count; ++s) {
    parts[s].first = next;
    while (next < layers && assigned[next] == s) ++next;
    parts[s].second = next;
    if (parts[s].first == next) {
      return absl::InvalidArgumentError(absl::StrCat(
          "virtual stage ", s, " has no layer, or layers' virtual stages do not ascend"));
    }
  }
  if (next < layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", graph.layers[next].name, " has no virtual stage of this pipeline"));
  }
  // Only the last layer may have no forward (the head, whose backward does all).
  for (int l = 0; l + 1 < layers; ++l) {
    if (graph.layers[l].templates.forward < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", graph.layers[l].name, " has no forward and is not the last"));
    }
  }
  return parts;
}

class Walker {
 public:
  Walker(const LayerGraph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  absl::StatusOr<Walk> Train() {
    RETURN_IF_ERROR(CheckOptions(graph_, plan_));
    walk_.stages = plan_.groups.pipeline;
    walk_.micro_batches =
        static_cast<int>(plan_.global_batch / plan_.groups.data / graph_.micro_batch);
    walk_.split = walk_.stages > 1 && plan_.schedule == ScheduleKind::kZeroBubble;
    if (walk_.split && !Splits(graph_)) {
      return absl::InvalidArgumentError(
          "zero-bubble schedules need layers whose backward is split, and these have none");
    }
    ASSIGN_OR_RETURN(walk_.layers, AssignLayers(graph_, plan_));
    if (walk_.stages == 1) {
      WalkOneStage();
    } else {
      RETURN_IF_ERROR(WalkPipeline());
    }
    return std::move(walk_);
  }

  absl::StatusOr<Walk> Evaluate(int micro_batches) {
    RETURN_IF_ERROR(CheckOptions(graph_, plan_));
    walk_.stages = plan_.groups.pipeline;
    walk_.micro_batches = micro_batches;
    walk_.evaluates = true;
    ASSIGN_OR_RETURN(walk_.layers, AssignLayers(graph_, plan_));
    // Every virtual stage takes the next micro-batch as soon as the one before it has passed on.
    const int count = walk_.virtual_stages();
    for (int v = 0; v < count; ++v) {
      for (int m = 0; m < micro_batches; ++m) {
        AddPass(v % walk_.stages, PassOf(PassKind::kForward, v, m), int64_t{m} + v);
      }
    }
    Sort();
    return std::move(walk_);
  }

 private:
  WalkPass PassOf(PassKind kind, int virtual_stage, int micro_batch) const {
    const auto& [first, end] = walk_.layers[virtual_stage];
    return {kind, virtual_stage / walk_.stages, micro_batch, first, end};
  }

  void WalkOneStage() {
    const int layers = static_cast<int>(graph_.layers.size());
    const auto add = [&](PassKind kind, int micro, int first, int end) {
      walk_.events.push_back({.time = static_cast<int64_t>(walk_.events.size()),
                              .pass = {kind, 0, micro, first, end}});
    };
    walk_.layers = {{0, layers}};
    if (plan_.micro_order == MicroOrder::kDepthFirst) {
      for (int m = 0; m < walk_.micro_batches; ++m) {
        add(PassKind::kForward, m, 0, layers);
        add(PassKind::kBackward, m, 0, layers);
      }
      return;
    }
    for (int l = 0; l < layers; ++l) {
      for (int m = 0; m < walk_.micro_batches; ++m) add(PassKind::kForward, m, l, l + 1);
    }
    for (int l = layers - 1; l >= 0; --l) {
      for (int m = 0; m < walk_.micro_batches; ++m) add(PassKind::kBackward, m, l, l + 1);
    }
  }

  absl::Status WalkPipeline() {
    const ScheduleOptions options{.kind = plan_.schedule,
                                  .stages = walk_.stages,
                                  .virtual_stages = plan_.virtual_stages,
                                  .micro_batches = walk_.micro_batches,
                                  .durations = plan_.durations,
                                  .in_flight = plan_.in_flight};
    ASSIGN_OR_RETURN(const Schedule schedule, BuildSchedule(options));
    for (int r = 0; r < walk_.stages; ++r) {
      for (const ScheduledPass& pass : schedule.stages[r]) {
        AddPass(r, PassOf(pass.kind, pass.virtual_stage(r, walk_.stages), pass.micro_batch),
                pass.end);
      }
    }
    AddTiedReduction(schedule);
    Sort();
    return absl::OkStatus();
  }

  // A pass, and the message that it makes.
  void AddPass(int stage, const WalkPass& pass, int64_t time) {
    walk_.events.push_back({.time = time, .stage = stage, .pass = pass});
    const bool forward = pass.kind == PassKind::kForward;
    const int peer = pass.chunk * walk_.stages + stage + (forward ? 1 : -1);
    if (pass.kind == PassKind::kBackwardWeight || peer < 0 || peer >= walk_.virtual_stages() ||
        walk_.stages == 1) {
      return;
    }
    walk_.events.push_back({.time = time,
                            .kind = WalkEvent::Kind::kMessage,
                            .stage = stage,
                            .pass = pass,
                            .direction = forward ? Direction::kForward : Direction::kBackward,
                            .receiver = peer % walk_.stages,
                            .receiver_chunk = peer / walk_.stages});
  }

  void Sort() {
    std::stable_sort(walk_.events.begin(), walk_.events.end(),
                     [](const WalkEvent& a, const WalkEvent& b) {
                       return std::tie(a.time, a.kind, a.stage, a.receiver) <
                              std::tie(b.time, b.kind, b.stage, b.receiver);
                     });
  }

  // Per set, whether layers of the first and of the last stage both use it.
  std::vector<bool> FindTied() const {
    std::vector<bool> first(graph_.sets.size(), false), last = first;
    for (int v = 0; v < walk_.virtual_stages(); ++v) {
      for (int l = walk_.layers[v].first; l < walk_.layers[v].second; ++l) {
        for (const int set : graph_.layers[l].sets) {
          if (v % walk_.stages == 0) first[set] = true;
          if (v % walk_.stages == walk_.stages - 1) last[set] = true;
        }
      }
    }
    for (size_t s = 0; s < first.size(); ++s) first[s] = first[s] && last[s];
    return first;
  }

  bool AddsTo(const std::vector<bool>& sets, int layer, PassKind kind) const {
    const int tmpl = walk_.TemplateOf(graph_, layer, kind);
    if (tmpl < 0) return false;
    for (const Formal& formal : graph_.templates[tmpl].formals) {
      if (formal.role == Role::kGradients && sets[graph_.layers[layer].sets[formal.index]]) {
        return true;
      }
    }
    return false;
  }

  // When the last producer on both stages has ended.
  void AddTiedReduction(const Schedule& schedule) {
    const std::vector<bool> tied = FindTied();
    int64_t time = -1;
    for (const int r : {0, walk_.stages - 1}) {
      for (const ScheduledPass& pass : schedule.stages[r]) {
        const auto& [first, end] = walk_.layers[pass.virtual_stage(r, walk_.stages)];
        for (int l = first; l < end; ++l) {
          if (AddsTo(tied, l, pass.kind)) time = std::max(time, pass.end);
        }
      }
    }
    if (time < 0) return;
    walk_.events.push_back({.time = time, .kind = WalkEvent::Kind::kReduceTied});
  }

  const LayerGraph& graph_;
  const Plan& plan_;
  Walk walk_;
};

}  // namespace

int Walk::TemplateOf(const LayerGraph& graph, int layer, PassKind kind) const {
  const LayerTemplates& t = graph.layers[layer].templates;
  if (evaluates) return kind == PassKind::kForward ? t.evaluate : -1;
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
  if (inner < count) {  // the first and the last layer count as a part's only one where need be
    for (int l = 0; l < layers; ++l) assigned[l] = static_cast<int>(int64_t{l} * count / layers);
    return assigned;
  }
  for (int l = 1; l <= inner; ++l) {
    assigned[l] = static_cast<int>(int64_t{l - 1} * count / inner);
  }
  assigned.back() = count - 1;
  return assigned;
}

absl::StatusOr<Walk> PlanTraining(const LayerGraph& graph, const Plan& plan) {
  return Walker(graph, plan).Train();
}

absl::StatusOr<Walk> PlanEvaluation(const LayerGraph& graph, const Plan& plan, int micro_batches) {
  return Walker(graph, plan).Evaluate(micro_batches);
}

}  // namespace strata::program
