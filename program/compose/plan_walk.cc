#include "program/compose/plan_walk.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/compose/check_plan.h"

namespace strata::program {
namespace {

absl::Status CheckPlaces(const Plan& plan) {
  const auto refuse = [](const char* what) { return absl::InvalidArgumentError(what); };
  if (plan.places.beyond_device() && plan.tier != Tier::kDevice) {
    return refuse("bytes at home beyond the device, and no device: kernels compute on the host");
  }
  if (plan.update == UpdatePolicy::kSpooled && !plan.places.gradients.beyond_device()) {
    return refuse("spooled gradients wait in host memory or on SSD, and all stay on the device");
  }
  const bool spools = plan.gradient == DType::kF32 && plan.spool != DType::kF32;
  if (spools && (plan.spool != DType::kBF16 || plan.update != UpdatePolicy::kSpooled)) {
    return refuse("spooled gradients are f32 or bf16, and only they are rounded");
  }
  if (plan.streaming.resident > 0 &&
      (plan.streaming.moved < 1 || plan.streaming.moved > plan.streaming.resident)) {
    return absl::InvalidArgumentError(absl::StrCat(plan.streaming.moved,
                                                   " layers moved at once, of ",
                                                   plan.streaming.resident, " that are resident"));
  }
  return absl::OkStatus();
}

absl::Status CheckSetTypes(const ParameterSet& set, const Plan& plan) {
  const auto refuse = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("set ", set.name, ": ", what));
  };
  const bool narrow = set.type == DType::kBF16 || set.type == DType::kF16;
  if (set.type != DType::kF32 && !narrow) return refuse("what trains has f32, bf16 or f16");
  if (plan.master == StateFormat::kRemainder && set.type == DType::kF16) {
    return refuse("16 bits and an f16 are no f32");
  }
  for (const StateSpec& state : StatesOf(plan, set)) {
    if (HasBlocks(state.format) && set.alignment % kStateBlock != 0) {
      return refuse("states in blocks, of which some have elements of two tensors");
    }
    // The gradient is what the first moments differ by: it needs all of their bits.
    if (plan.update == UpdatePolicy::kSpeculative && state.format != StateFormat::kF32) {
      return refuse("speculative updates need states in f32");
    }
  }
  if (plan.update == UpdatePolicy::kSpeculative && narrow) {
    return refuse("speculative updates need weights in f32");
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const LayerGraph& graph, const Plan& plan) {
  if (plan.gradient != DType::kF32 && plan.gradient != DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients are summed in f32 or bf16, not ", Name(plan.gradient)));
  }
  if (plan.master != StateFormat::kF32 && plan.master != StateFormat::kRemainder) {
    return absl::InvalidArgumentError(absl::StrCat("a master in ", Name(plan.master)));
  }
  for (const ParameterSet& set : graph.sets) {
    if (set.trainable) RETURN_IF_ERROR(CheckSetTypes(set, plan));
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
  if (plan.shard != ShardLevel::kNone && groups.shard == 1 && groups.data > 1) {
    return absl::InvalidArgumentError("a shard group of one rank shards nothing");
  }
  const int64_t shards = plan.virtual_shards;
  if (shards < 0 || (shards > 0 && !SumsAreSubtrees(static_cast<PlanShape::Shard>(plan.shard),
                                                    groups.data, groups.shard, shards))) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtual_shards ", shards, " over ", groups.data, " ranks in shard groups of ",
                     groups.shard, ": what ranks sum first is no branch of the tree"));
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
  if (groups.pipeline > 1 && plan.micro_order == MicroOrder::kLayerFirst &&
      plan.schedule != ScheduleKind::kGpipe) {
    return absl::InvalidArgumentError(
        "layer_first in a pipeline is GPipe's order, all forwards before the first backward; "
        "other schedules order micro-batches themselves");
  }
  RETURN_IF_ERROR(CheckTypes(graph, plan));
  return CheckPlaces(plan);
}

bool HasSplitBackward(const LayerGraph& graph) {
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
  if (assigned.empty()) assigned = BalancedVirtualStages(LayerCosts(graph), count);
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

double FlopsOf(const LayerGraph& graph, int called) {
  double flops = 0;
  if (called < 0) return flops;
  for (const Op& op : graph.templates[called].ops) flops += op.flops;
  return flops;
}

class Walker {
 public:
  Walker(const LayerGraph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  absl::StatusOr<Walk> Train() {
    RETURN_IF_ERROR(CheckOptions(graph_, plan_));
    walk_.schedule = plan_.schedule;
    walk_.stages = plan_.groups.pipeline;
    walk_.micro_batches =
        static_cast<int>(plan_.global_batch / plan_.groups.data / graph_.micro_batch);
    walk_.split = walk_.stages > 1 && Splits(plan_.schedule);
    if (walk_.split && !HasSplitBackward(graph_)) {
      return absl::InvalidArgumentError(
          "zero-bubble schedules need layers whose backward is split, and these have none");
    }
    ASSIGN_OR_RETURN(walk_.layers, AssignLayers(graph_, plan_));
    if (walk_.stages == 1) walk_.layers = {{0, static_cast<int>(graph_.layers.size())}};
    if (plan_.micro_order == MicroOrder::kLayerFirst) {
      WalkLayerFirst();
    } else if (walk_.stages == 1) {
      WalkOneStage();
    } else {
      RETURN_IF_ERROR(WalkPipeline());
    }
    if (walk_.stages > 1) AddTiedReduction();
    Sort();
    return std::move(walk_);
  }

  absl::StatusOr<Walk> Evaluate(int micro_batches) {
    RETURN_IF_ERROR(CheckOptions(graph_, plan_));
    walk_.schedule = plan_.schedule;
    walk_.stages = plan_.groups.pipeline;
    walk_.micro_batches = micro_batches;
    walk_.evaluates = true;
    ASSIGN_OR_RETURN(walk_.layers, AssignLayers(graph_, plan_));
    // Every virtual stage takes the next micro-batch as soon as the one before it has passed on.
    const int count = walk_.virtual_stages();
    for (int v = 0; v < count; ++v) {
      for (int m = 0; m < micro_batches; ++m) {
        AddPass(walk_.StageOf(v), PassOf(PassKind::kForward, v, m), int64_t{m} + v);
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
    walk_.in_flight = {1};
    const int layers = static_cast<int>(graph_.layers.size());
    for (int m = 0; m < walk_.micro_batches; ++m) {
      AddPass(0, {PassKind::kForward, 0, m, 0, layers}, 2 * m);
      AddPass(0, {PassKind::kBackward, 0, m, 0, layers}, 2 * m + 1);
    }
  }

  // Every stage takes each of its layers through all micro-batches before the next, as soon as the
  // stage before has let the first of them go: GPipe, layer by layer. All layers count alike.
  void WalkLayerFirst() {
    const PassDurations& d = plan_.durations;
    walk_.in_flight.assign(walk_.stages, walk_.micro_batches);
    std::vector<int64_t> ready(walk_.micro_batches, 0);  // when a micro-batch came to a stage
    std::vector<int64_t> free(walk_.stages, 0);
    const auto walk = [&](PassKind kind, int stage, int layer, int64_t duration) {
      for (int m = 0; m < walk_.micro_batches; ++m) {
        free[stage] = std::max(free[stage], ready[m]) + duration;
        AddPass(stage, {kind, 0, m, layer, layer + 1}, free[stage]);
        ready[m] = free[stage];
      }
    };
    for (int r = 0; r < walk_.stages; ++r) {
      const auto& [first, end] = walk_.layers[r];
      for (int l = first; l < end; ++l) walk(PassKind::kForward, r, l, d.forward);
    }
    for (int r = walk_.stages - 1; r >= 0; --r) {
      const auto& [first, end] = walk_.layers[r];
      for (int l = end - 1; l >= first; --l) {
        walk(PassKind::kBackward, r, l, d.backward_input + d.backward_weight);
      }
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
      walk_.in_flight.push_back(InFlightBound(options, r));
      for (const ScheduledPass& pass : schedule.stages[r]) {
        AddPass(r, PassOf(pass.kind, walk_.VirtualStage(r, pass.chunk), pass.micro_batch),
                pass.end);
      }
    }
    return absl::OkStatus();
  }

  // A pass, and the message that it makes if it is the last of its chunk's for the micro-batch.
  void AddPass(int stage, const WalkPass& pass, int64_t time) {
    walk_.events.push_back({.time = time, .stage = stage, .pass = pass});
    const bool forward = pass.kind == PassKind::kForward;
    const int own = walk_.VirtualStage(stage, pass.chunk), peer = own + (forward ? 1 : -1);
    if (pass.kind == PassKind::kBackwardWeight || peer < 0 || peer >= walk_.virtual_stages()) {
      return;
    }
    const auto& [first, end] = walk_.layers[own];
    if (forward ? pass.end < end : pass.first > first) return;
    walk_.events.push_back({.time = time,
                            .kind = WalkEvent::Kind::kMessage,
                            .stage = stage,
                            .pass = pass,
                            .direction = forward ? Direction::kForward : Direction::kBackward,
                            .receiver = walk_.StageOf(peer),
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
          if (walk_.StageOf(v) == 0) first[set] = true;
          if (walk_.StageOf(v) == walk_.stages - 1) last[set] = true;
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
  void AddTiedReduction() {
    const std::vector<bool> tied = FindTied();
    int64_t time = -1;
    for (const WalkEvent& event : walk_.events) {
      const bool holds = event.stage == 0 || event.stage == walk_.stages - 1;
      if (event.kind != WalkEvent::Kind::kPass || !holds) continue;
      for (int l = event.pass.first; l < event.pass.end; ++l) {
        if (AddsTo(tied, l, event.pass.kind)) time = std::max(time, event.time);
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

std::vector<int> BalancedVirtualStages(const std::vector<double>& costs, int count) {
  const int layers = static_cast<int>(costs.size());
  const bool few = layers - 2 < count;  // the first and the last count as a part's only one
  // Items: what a part has at least one of. The first layer goes with the first, the last with the
  // last.
  std::vector<double> sums(1, 0);  // of the first i items
  const int begin = few ? 0 : 1, items = few ? layers : layers - 2;
  for (int i = 0; i < items; ++i) sums.push_back(sums.back() + costs[begin + i]);
  if (!few) {
    for (int i = 1; i <= items; ++i) sums[i] += costs.front();
    sums[items] += costs.back();
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // The least total of parts' prices for the first i items in p parts, and where the last begins.
  const auto divide = [&](const auto& price, const auto& join, std::vector<int>* starts) {
    std::vector<std::vector<double>> best(count + 1, std::vector<double>(items + 1, kNever));
    std::vector<std::vector<int>> from(count + 1, std::vector<int>(items + 1, 0));
    best[0][0] = 0;
    for (int p = 1; p <= count; ++p) {
      for (int i = p; i <= items; ++i) {
        for (int j = p - 1; j < i; ++j) {
          const double total = join(best[p - 1][j], price(sums[i] - sums[j]));
          if (total < best[p][i]) best[p][i] = total, from[p][i] = j;
        }
      }
    }
    for (int p = count, i = items; starts != nullptr && p > 0; --p) {
      starts->insert(starts->begin(), i = from[p][i]);
    }
    return best[count][items];
  };
  const double most = divide([](double cost) { return cost; },
                             [](double a, double b) { return std::max(a, b); }, nullptr);
  std::vector<int> starts;
  divide([&](double cost) { return cost <= most ? cost * cost : kNever; },
         [](double a, double b) { return a + b; }, &starts);
  std::vector<int> assigned(layers, 0);
  for (int l = 0, part = 0; l < layers; ++l) {
    while (part + 1 < count && l - begin >= starts[part + 1]) ++part;
    assigned[l] = part;
  }
  return assigned;
}

std::vector<double> LayerCosts(const LayerGraph& graph) {
  std::vector<double> costs;
  for (const Layer& layer : graph.layers) {
    costs.push_back(FlopsOf(graph, layer.templates.forward) +
                    FlopsOf(graph, layer.templates.backward));
  }
  return costs;
}

PassDurations DurationsOf(const LayerGraph& graph) {
  constexpr double kForward = 1000;  // units
  double forward = 0, backward = 0, weight = 0;
  for (const Layer& layer : graph.layers) {
    const LayerTemplates& t = layer.templates;
    if (t.forward < 0 || t.backward < 0) continue;
    forward += FlopsOf(graph, t.forward);
    backward += FlopsOf(graph, t.backward);
    weight += FlopsOf(graph, t.backward_weight);
  }
  if (forward <= 0) return {};
  if (weight <= 0) weight = backward / 2;  // not split
  const auto units = [&](double flops) {
    return std::max<int64_t>(1, static_cast<int64_t>(flops / forward * kForward));
  };
  return {units(forward), units(backward - weight), units(weight)};
}

absl::StatusOr<Walk> PlanTraining(const LayerGraph& graph, const Plan& plan) {
  return Walker(graph, plan).Train();
}

absl::StatusOr<Walk> PlanEvaluation(const LayerGraph& graph, const Plan& plan, int micro_batches) {
  return Walker(graph, plan).Evaluate(micro_batches);
}

}  // namespace strata::program
