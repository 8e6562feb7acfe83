#include "program/compose/check_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "program/compose/plan_rules.h"

namespace strata::program {
namespace {

using Problem = std::optional<PlanProblem>;
using Shard = PlanShape::Shard;
using Schedule = PlanShape::Schedule;

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// Ranks whose gradients are summed before those of other replicas: s of the header.
int64_t SharersOf(Shard shard, int64_t data, int64_t shard_group) {
  const int64_t group = shard_group == 0 ? data : shard_group;
  if (shard == Shard::kNone) return 1;
  // Of zero1 a rank's own leaves come first: that is an order of its own only between replicas.
  return shard == Shard::kZero1 && group == data ? 1 : group;
}

const char* NameOf(Shard shard) {
  constexpr const char* kNames[] = {"none", "zero1", "zero2", "zero3"};
  return kNames[static_cast<int>(shard)];
}

Problem CheckShards(const PlanShape& plan) {
  if (plan.shard_group == 0 || plan.data == 0) return std::nullopt;
  const std::string group = absl::StrCat("shard_group ", plan.shard_group);
  if (plan.shard == Shard::kNone) {
    return PlanProblem{"parallel.shard_group",
                       absl::StrCat(group, " without shards (parallel.shard is none)")};
  }
  if (plan.data % plan.shard_group != 0) {
    return PlanProblem{
        "parallel.shard_group",
        absl::StrCat("data ", plan.data, " is not divisible by ", group,
                     " (the ranks of data are cut into groups that each hold all shards)")};
  }
  if (plan.shard_group == 1 && plan.data > 1) {
    return PlanProblem{"parallel.shard_group", absl::StrCat(group, " shards nothing")};
  }
  return std::nullopt;
}

// Why the sums of blocks are no branches of the tree over virtual_shards.
PlanProblem NoTree(const PlanShape& plan) {
  const int64_t shards = plan.virtual_shards;
  const int64_t sharers = SharersOf(plan.shard, plan.data, plan.shard_group);
  PlanProblem problem{"parallel.virtual_shards", absl::StrCat("virtual_shards ", shards)};
  if (sharers > 1 && !IsPowerOfTwo(sharers)) {
    absl::StrAppend(&problem.what, " with ", NameOf(plan.shard), " over ", sharers,
                    " ranks: ", sharers, " is no power of two (their sum is no branch of the tree ",
                    "over the virtual shards)");
  } else if (sharers > 1) {
    absl::StrAppend(&problem.what, " over ", plan.data / sharers,
                    " replicas: ", shards / (plan.data / sharers),
                    " each is no power of two (their sum is no branch of the tree over the "
                    "virtual shards)");
  } else {
    absl::StrAppend(&problem.what, " is no power of two times parallel.data ", plan.data,
                    " (the reduction tree has one leaf per virtual shard)");
  }
  return problem;
}

Problem CheckBatch(const PlanShape& plan) {
  const int64_t batch = plan.global_batch, shards = plan.virtual_shards;
  if (plan.data == 0) return std::nullopt;
  if (shards > 0) {
    if (shards % plan.data != 0) {
      return PlanProblem{
          "parallel.virtual_shards",
          absl::StrCat("virtual_shards ", shards, " is not divisible by parallel.data ", plan.data,
                       " (the reduction tree has one leaf per virtual shard)")};
    }
    if (!CheckShards(plan).has_value() &&
        !SumsAreSubtrees(plan.shard, plan.data, plan.shard_group, shards)) {
      return NoTree(plan);
    }
  }
  if (batch == 0) return std::nullopt;
  const auto whole = [&](const char* field, const std::string& what) -> Problem {
    return PlanProblem{field,
                       absl::StrCat("train.global_batch ", batch, " is not divisible by ", what)};
  };
  if (batch % plan.data != 0) {
    return whole("parallel.data",
                 absl::StrCat(plan.data, " (every rank takes equally many sequences)"));
  }
  if (shards > 0 && batch % shards != 0) {
    return whole("parallel.virtual_shards", absl::StrCat("virtual_shards ", shards));
  }
  const int64_t parts = shards > 0 ? shards : plan.data;
  if (plan.micro_batch == 0 || batch / parts % plan.micro_batch == 0) return std::nullopt;
  return PlanProblem{"train.micro_batch",
                     absl::StrCat("train.global_batch / ", shards > 0 ? "virtual_shards" : "data",
                                  " = ", batch, " / ", parts, " = ", batch / parts,
                                  " is not divisible by micro_batch ", plan.micro_batch)};
}

// Whether neither divides the other: fewer key-value heads than ranks are replicated.
bool AreUneven(int64_t heads, int64_t ranks) { return heads % ranks != 0 && ranks % heads != 0; }

Problem CheckTensor(const PlanShape& plan) {
  const int64_t tensor = plan.tensor;
  if (tensor <= 1) return std::nullopt;
  std::vector<std::string> uneven;
  const auto look = [&](const char* name, int64_t value, bool bad) {
    if (value > 0 && bad) uneven.push_back(absl::StrCat(name, " ", value));
  };
  look("heads", plan.heads, plan.heads % tensor != 0);
  look("kv_heads", plan.kv_heads, plan.kv_heads > 0 && AreUneven(plan.kv_heads, tensor));
  look("ffn", plan.ffn, plan.ffn % tensor != 0);
  if (!uneven.empty()) {
    return PlanProblem{"parallel.tensor",
                       absl::StrCat("tensor ", tensor, " does not divide the model's ",
                                    absl::StrJoin(uneven, " and "))};
  }
  const int64_t tokens = plan.micro_batch * plan.sequence / std::max<int64_t>(1, plan.context);
  if (tokens % tensor == 0) return std::nullopt;
  return PlanProblem{
      "parallel.tensor",
      absl::StrCat("the ", tokens, " tokens of a pass (micro_batch × sequence / context) are not ",
                   "divisible by tensor ", tensor, " (between layers each rank holds its share)")};
}

Problem CheckContext(const PlanShape& plan) {
  const int64_t context = plan.context;
  if (context <= 1) return std::nullopt;
  const int64_t ranks = std::max<int64_t>(1, plan.tensor) * context;
  if (plan.context_method == PlanShape::ContextMethod::kAllToAll && plan.heads > 0 &&
      (plan.heads % ranks != 0 || (plan.kv_heads > 0 && AreUneven(plan.kv_heads, ranks)))) {
    return PlanProblem{"parallel.context",
                       absl::StrCat("all_to_all needs heads for every rank: heads ", plan.heads,
                                    " and kv_heads ", plan.kv_heads, " do not go into tensor ",
                                    std::max<int64_t>(1, plan.tensor), " × context ", context)};
  }
  if (plan.sequence % (2 * context) == 0) return std::nullopt;
  return PlanProblem{
      "parallel.context",
      absl::StrCat("train.sequence ", plan.sequence, " is not divisible by 2 × context ", context,
                   " (each rank takes an early and a late part: equal work)")};
}

Problem CheckStages(const PlanShape& plan) {
  if (plan.pipeline == 0 || plan.virtual_stages == 0) return std::nullopt;
  const int64_t stages = plan.pipeline * plan.virtual_stages;
  const std::string product =
      absl::StrCat("pipeline ", plan.pipeline, " × virtual_stages ", plan.virtual_stages);
  const int64_t listed = static_cast<int64_t>(plan.stages.size());
  if (plan.layers > 0 && stages > plan.layers) {
    return PlanProblem{
        "parallel.pipeline",
        absl::StrCat(product, " is more than the model's layers (", plan.layers, ")")};
  }
  if (listed == 0) return std::nullopt;
  if (listed != stages) {
    return PlanProblem{
        "parallel.stages",
        absl::StrCat("layers of ", listed, " stages are listed, where ", product, " = ", stages)};
  }
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i] >= 1) continue;
    return PlanProblem{
        absl::StrCat("parallel.stages[", i, "]"),
        absl::StrCat("a stage of ", plan.stages[i], " layers (each has one at least)")};
  }
  const int64_t sum = std::accumulate(plan.stages.begin(), plan.stages.end(), int64_t{0});
  if (plan.layers == 0 || sum == plan.layers) return std::nullopt;
  return PlanProblem{
      "parallel.stages",
      absl::StrCat("the stages have ", sum, " layers in all, the model has ", plan.layers)};
}

Problem CheckSchedule(const PlanShape& plan) {
  const int64_t chunks = plan.virtual_stages;
  if (chunks == 0) return std::nullopt;
  if (plan.layer_first && plan.pipeline > 1 && plan.schedule != Schedule::kGpipe) {
    return PlanProblem{"parallel.pipeline_schedule",
                       "micro_order layer_first in a pipeline needs gpipe (a stage takes a layer "
                       "through all micro-batches, so all forwards come before the first "
                       "backward)"};
  }
  const auto refuse = [&](const char* what) -> Problem {
    return PlanProblem{"parallel.virtual_stages",
                       absl::StrCat("virtual_stages ", chunks, ": ", what)};
  };
  switch (plan.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1F1B:
      if (chunks != 1) return refuse("gpipe and 1f1b have one stage per rank");
      return std::nullopt;
    case Schedule::kZbv:
      if (chunks != 2) return refuse("zbv has 2 per rank (there and back: a V)");
      return std::nullopt;
    case Schedule::kInterleaved:
      if (chunks == 1) return refuse("interleaved has at least 2 per rank");
      break;
    case Schedule::kZeroBubble:
      break;
  }
  if (chunks == 1 || plan.global_batch == 0 || plan.micro_batch == 0 || plan.data == 0) {
    return std::nullopt;
  }
  const int64_t micro_batches = plan.global_batch / plan.data / plan.micro_batch;
  if (plan.pipeline == 0 || micro_batches % plan.pipeline == 0) return std::nullopt;
  return PlanProblem{
      "parallel.pipeline",
      absl::StrCat("a rank's ", micro_batches, " micro-batches are not divisible by pipeline ",
                   plan.pipeline, " (with virtual stages they go round in groups of that many)")};
}

Problem CheckExperts(const PlanShape& plan) {
  if (plan.expert <= 1) return std::nullopt;
  return PlanProblem{
      "parallel.expert",
      absl::StrCat("expert ", plan.expert, " of a dense model (it has no experts to divide)")};
}

Problem CheckRecompute(const PlanShape& plan, const std::vector<std::string>& savable) {
  for (size_t i = 0; i < plan.recompute_saves.size(); ++i) {
    const std::string& name = plan.recompute_saves[i];
    if (std::find(savable.begin(), savable.end(), name) != savable.end()) continue;
    return PlanProblem{absl::StrCat("parallel.recompute.save[", i, "]"),
                       absl::StrCat("unknown saved value ", name, " (the values are ",
                                    absl::StrJoin(savable, ", "), ")")};
  }
  if (!plan.recompute_layers.has_value() || plan.layers == 0) return std::nullopt;
  const auto [first, last] = *plan.recompute_layers;
  if (first >= 0 && first <= last && last < plan.layers) return std::nullopt;
  return PlanProblem{"parallel.recompute.layers",
                     absl::StrCat("layers ", first, "-", last, " of a model whose layers are 0-",
                                  plan.layers - 1)};
}

}  // namespace

bool SumsAreSubtrees(Shard shard, int64_t data, int64_t shard_group, int64_t virtual_shards) {
  if (virtual_shards % data != 0) return false;
  const int64_t sharers = SharersOf(shard, data, shard_group);
  if (data % sharers != 0) return false;
  const int64_t replicas = data / sharers;
  // A branch of the tree is an aligned power of two of leaves, or all of them.
  if (replicas == 1) return sharers == virtual_shards || IsPowerOfTwo(sharers);
  return IsPowerOfTwo(sharers) && IsPowerOfTwo(virtual_shards / replicas);
}

BrokenRules FindBroken(const PlanShape& plan, const std::vector<std::string>& savable) {
  return {
      CheckShards(plan), CheckBatch(plan),    CheckTensor(plan),  CheckContext(plan),
      CheckStages(plan), CheckSchedule(plan), CheckExperts(plan), CheckRecompute(plan, savable)};
}

std::vector<PlanProblem> CheckPlan(const PlanShape& plan, const std::vector<std::string>& savable) {
  BrokenRules broken = FindBroken(plan, savable);
  SuggestLegal(plan, savable, broken);
  std::vector<PlanProblem> problems;
  for (Problem& problem : broken) {
    if (problem.has_value()) problems.push_back(*std::move(problem));
  }
  return problems;
}

}  // namespace strata::program
