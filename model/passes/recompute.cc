#include "model/passes/recompute.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/graph/node_rule.h"
#include "model/passes/differentiate.h"

namespace strata::model {
namespace {

bool IsStatistic(const Graph& graph, ValueId value) {
  const Node& producer = graph.nodes[graph.values[value].producer];
  const int statistic = RuleOf(producer.kind).statistic();
  return statistic >= 0 && producer.out[statistic] == value;
}

bool MadeByAttention(const Graph& graph, ValueId value) {
  return graph.nodes[graph.values[value].producer].kind == NodeKind::kAttention;
}

// In the forward's order: what has no FLOPs to replay from what is saved before it is replayed.
std::set<ValueId> SavedByDefault(const Graph& graph, const std::vector<ValueId>& reads) {
  std::set<ValueId> saved;
  for (const ValueId value : reads) {
    if (IsStatistic(graph, value) || ReplayFlops(graph, value, saved, 1) > 0) saved.insert(value);
  }
  return saved;
}

}  // namespace

double ReplayFlops(const Graph& graph, ValueId value, const std::set<ValueId>& at_hand,
                   int64_t sequence) {
  if (at_hand.contains(value) || graph.values[value].producer < 0) return 0;
  const Node& producer = graph.nodes[graph.values[value].producer];
  double flops = RuleOf(producer.kind).Flops(graph, producer, sequence);
  for (const ValueId in : producer.in) flops += ReplayFlops(graph, in, at_hand, sequence);
  return flops;
}

std::set<ValueId> ChooseSaved(const Graph& graph, const std::vector<ValueId>& reads,
                              const RecomputePlan& plan) {
  if (!plan.save.empty()) {
    std::set<ValueId> saved;
    for (const ValueId value : reads) {
      const auto names_it = [&](const std::string& name) {
        return name == kAllValues || name == graph.values[value].name;
      };
      if (std::any_of(plan.save.begin(), plan.save.end(), names_it)) saved.insert(value);
    }
    return saved;
  }
  if (plan.mode == RecomputePlan::Mode::kFull) return {};
  std::set<ValueId> saved = SavedByDefault(graph, reads);
  if (plan.mode == RecomputePlan::Mode::kSelective) {
    std::erase_if(saved, [&](ValueId value) { return MadeByAttention(graph, value); });
  }
  return saved;
}

std::vector<SavedValue> DescribeSavable(const Graph& graph, int64_t sequence) {
  const std::vector<ValueId> reads = ForwardReads(graph, LiveBackward(graph, true));
  const std::set<ValueId> kept = SavedByDefault(graph, reads);
  std::vector<SavedValue> savable;
  for (const ValueId value : reads) {
    std::set<ValueId> others(reads.begin(), reads.end());
    others.erase(value);
    const Value& described = graph.values[value];
    savable.push_back({described.name, program::BytesOf(described.type, described.width),
                       ReplayFlops(graph, value, others, sequence), kept.contains(value)});
  }
  return savable;
}

absl::Status CheckRecompute(const RecomputePlan& plan, const std::vector<SavedValue>& savable,
                            int64_t layers) {
  if (!plan.save.empty() && plan.mode != RecomputePlan::Mode::kNone) {
    return absl::InvalidArgumentError("recompute.save: names go with mode none only");
  }
  if (plan.first_layer < 0 || plan.first_layer >= layers || plan.last_layer >= layers ||
      (plan.last_layer >= 0 && plan.last_layer < plan.first_layer)) {
    return absl::InvalidArgumentError(absl::StrCat("recompute.layers: ", plan.first_layer, " to ",
                                                   plan.last_layer, " are not among layers 0 to ",
                                                   layers - 1));
  }
  for (const std::string& name : plan.save) {
    const auto is_named = [&](const SavedValue& value) { return value.name == name; };
    if (name == kAllValues) continue;
    if (std::any_of(savable.begin(), savable.end(), is_named)) continue;
    const auto append_name = [](std::string* out, const SavedValue& value) {
      absl::StrAppend(out, value.name);
    };
    return absl::InvalidArgumentError(absl::StrCat("recompute.save: ", name, " is not one of ",
                                                   absl::StrJoin(savable, ", ", append_name)));
  }
  return absl::OkStatus();
}

}  // namespace strata::model
