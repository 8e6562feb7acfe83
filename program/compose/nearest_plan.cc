#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "program/compose/plan_rules.h"

namespace strata::program {
namespace {

using Schedule = PlanShape::Schedule;
using ContextMethod = PlanShape::ContextMethod;

// --- Plans as settings of a job file.

struct Setting {
  std::string field, value;  // empty: absent

  bool operator==(const Setting&) const = default;
};

const char* NameOf(Schedule schedule) {
  constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved", "zero_bubble", "zbv"};
  return kNames[static_cast<int>(schedule)];
}

const char* NameOf(ContextMethod method) {
  constexpr const char* kNames[] = {"ring", "all_gather", "all_to_all"};
  return kNames[static_cast<int>(method)];
}

// Always the same fields in the same order.
std::vector<Setting> SettingsOf(const PlanShape& plan) {
  const auto number = [](int64_t value) { return value == 0 ? "" : absl::StrCat(value); };
  const auto& layers = plan.recompute_layers;
  return {
      {"parallel.data", number(plan.data)},
      {"parallel.shard_group", number(plan.shard_group)},
      {"parallel.virtual_shards", plan.virtual_shards == 0 ? "off" : number(plan.virtual_shards)},
      {"train.micro_batch", number(plan.micro_batch)},
      {"parallel.tensor", number(plan.tensor)},
      {"parallel.context", number(plan.context)},
      {"parallel.context_method", NameOf(plan.context_method)},
      {"parallel.pipeline", number(plan.pipeline)},
      {"parallel.pipeline_schedule", NameOf(plan.schedule)},
      {"parallel.virtual_stages", number(plan.virtual_stages)},
      {"parallel.stages",
       plan.stages.empty() ? "" : absl::StrCat("[", absl::StrJoin(plan.stages, ", "), "]")},
      {"parallel.micro_order", plan.layer_first ? "layer_first" : "depth_first"},
      {"parallel.expert", number(plan.expert)},
      {"parallel.recompute.layers",
       layers.has_value() ? absl::StrCat(layers->first, "-", layers->last) : ""},
  };
}

std::vector<Setting> Changes(const PlanShape& from, const PlanShape& to) {
  const std::vector<Setting> before = SettingsOf(from);
  std::vector<Setting> after = SettingsOf(to), changes;
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] != before[i]) changes.push_back(std::move(after[i]));
  }
  return changes;
}

// Keys as they stand beside the blamed one.
std::string Text(const std::vector<Setting>& changes, const std::string& blamed) {
  const std::string section = blamed.substr(0, blamed.rfind('.') + 1);
  std::vector<std::string> uses, removes;
  for (const Setting& change : changes) {
    const bool beside =
        change.field.rfind('.') + 1 == section.size() && absl::StartsWith(change.field, section);
    const std::string key = beside ? change.field.substr(section.size()) : change.field;
    if (change.value.empty()) {
      removes.push_back(key);
    } else {
      uses.push_back(absl::StrCat(key, ": ", change.value));
    }
  }
  std::vector<std::string> parts;
  if (!uses.empty()) parts.push_back(absl::StrCat("use ", absl::StrJoin(uses, ", ")));
  if (!removes.empty()) parts.push_back(absl::StrCat("remove ", absl::StrJoin(removes, ", ")));
  return absl::StrJoin(parts, " and ");
}

// --- What a field may become. Costs are powers of two of a factor, of names an equal weight.

struct Step {
  double cost = 0;
  PlanShape plan;
};
using Steps = std::vector<Step>;
constexpr double kOtherName = 1, kLeftOut = 1.5;

std::vector<int64_t> DivisorsOf(int64_t number) {
  constexpr int64_t kMost = 4096;  // the least of each pair; layouts' numbers are small
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= kMost && d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d * d != number) divisors.push_back(number / d);
  }
  return divisors;
}

// What needs more ranks or memory when it grows is further up than down.
double Distance(int64_t from, int64_t to, bool grows_freely) {
  const double factor = std::log2(static_cast<double>(to) / static_cast<double>(from));
  return factor > 0 && !grows_freely ? 2 * factor : std::abs(factor);
}

// The nearest of the values, and the least: that one breaks no rule of its own.
void VaryNumber(const PlanShape& plan, int64_t PlanShape::*field, std::vector<int64_t> values,
                Steps& steps, bool grows_freely = false) {
  constexpr size_t kMost = 12;
  const int64_t now = plan.*field;
  if (now < 1) return;
  const auto distance = [&](int64_t value) { return Distance(now, value, grows_freely); };
  std::sort(values.begin(), values.end(), [&](int64_t a, int64_t b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > kMost) values.resize(kMost);
  if (std::find(values.begin(), values.end(), 1) == values.end()) values.push_back(1);
  for (const int64_t value : values) {
    if (value == now) continue;
    steps.push_back({distance(value), plan});
    steps.back().plan.*field = value;
  }
}

void VaryData(const PlanShape& plan, Steps& steps) {
  const int64_t whole =
      plan.global_batch > 0 ? plan.global_batch : std::max(plan.virtual_shards, plan.data);
  VaryNumber(plan, &PlanShape::data, DivisorsOf(whole), steps);
  for (Step& step : steps) {  // what is data by default
    if (plan.virtual_shards == plan.data) step.plan.virtual_shards = step.plan.data;
    if (plan.shard_group == plan.data) step.plan.shard_group = step.plan.data;
  }
}

void VaryShardGroup(const PlanShape& plan, Steps& steps) {
  if (plan.shard_group == 0 || plan.data == 0) return;
  VaryNumber(plan, &PlanShape::shard_group, DivisorsOf(plan.data), steps);
  steps.push_back({kLeftOut, plan});
  steps.back().plan.shard_group = 0;
}

void VaryVirtualShards(const PlanShape& plan, Steps& steps) {
  if (plan.virtual_shards == 0 || plan.data == 0) return;
  std::vector<int64_t> values = DivisorsOf(plan.global_batch / plan.data);
  for (int64_t power = 1; power <= 2 * plan.virtual_shards; power *= 2) values.push_back(power);
  for (int64_t& value : values) value *= plan.data;
  VaryNumber(plan, &PlanShape::virtual_shards, std::move(values), steps);
  steps.push_back({kLeftOut, plan});
  steps.back().plan.virtual_shards = 0;
}

void VaryMicroBatch(const PlanShape& plan, Steps& steps) {
  const int64_t parts = std::max(plan.virtual_shards, plan.data);
  if (parts == 0) return;
  VaryNumber(plan, &PlanShape::micro_batch, DivisorsOf(plan.global_batch / parts), steps);
}

void VaryTensor(const PlanShape& plan, Steps& steps) {
  int64_t common = std::gcd(plan.heads, plan.ffn);
  if (common == 0) common = plan.tensor;
  VaryNumber(plan, &PlanShape::tensor, DivisorsOf(common), steps);
}

void VaryContext(const PlanShape& plan, Steps& steps) {
  const int64_t whole = plan.sequence > 0 ? plan.sequence / 2 : plan.context;
  VaryNumber(plan, &PlanShape::context, DivisorsOf(whole), steps);
}

void VaryContextMethod(const PlanShape& plan, Steps& steps) {
  for (const ContextMethod method :
       {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kAllToAll}) {
    if (method == plan.context_method) continue;
    steps.push_back({kOtherName, plan});
    steps.back().plan.context_method = method;
  }
}

void VaryPipeline(const PlanShape& plan, Steps& steps) {
  constexpr int64_t kMost = 1024;
  const int64_t most = plan.layers > 0 ? plan.layers : plan.pipeline;
  std::vector<int64_t> values(std::min(kMost, most));
  std::iota(values.begin(), values.end(), 1);
  VaryNumber(plan, &PlanShape::pipeline, std::move(values), steps);
}

void VaryVirtualStages(const PlanShape& plan, Steps& steps) {
  VaryNumber(plan, &PlanShape::virtual_stages, {1, 2, 3, 4, 5, 6, 7, 8}, steps, true);
}

void VaryStages(const PlanShape& plan, Steps& steps) {
  if (plan.stages.empty()) return;
  steps.push_back({kLeftOut, plan});
  steps.back().plan.stages.clear();
  const int64_t count = plan.pipeline * plan.virtual_stages;
  if (count < 1 || plan.layers < count) return;
  steps.push_back({kOtherName, plan});
  std::vector<int64_t>& even = steps.back().plan.stages;
  even.clear();
  for (int64_t s = 0; s < count; ++s) {
    even.push_back((s + 1) * plan.layers / count - s * plan.layers / count);
  }
}

void VarySchedule(const PlanShape& plan, Steps& steps) {
  if (plan.virtual_stages == 0) return;
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved,
                                  Schedule::kZeroBubble, Schedule::kZbv}) {
    if (schedule == plan.schedule) continue;
    steps.push_back({kOtherName, plan});
    PlanShape& changed = steps.back().plan;
    changed.schedule = schedule;
    if (schedule == Schedule::kZbv) changed.virtual_stages = 2;
    if (schedule == Schedule::kInterleaved) {
      changed.virtual_stages = std::max<int64_t>(2, changed.virtual_stages);
    }
    if (schedule == Schedule::kGpipe || schedule == Schedule::k1F1B) changed.virtual_stages = 1;
  }
}

void VaryMicroOrder(const PlanShape& plan, Steps& steps) {
  steps.push_back({kLeftOut, plan});
  steps.back().plan.layer_first = !plan.layer_first;
}

void VaryExpert(const PlanShape& plan, Steps& steps) {
  VaryNumber(plan, &PlanShape::expert, {1}, steps);
}

void VaryRecompute(const PlanShape& plan, Steps& steps) {
  if (!plan.recompute_layers.has_value() || plan.layers == 0) return;
  steps.push_back({kOtherName, plan});
  auto& [first, last] = *steps.back().plan.recompute_layers;
  first = std::clamp<int64_t>(first, 0, plan.layers - 1);
  last = std::clamp<int64_t>(last, first, plan.layers - 1);
}

struct Knob {
  const char* field;
  void (*vary)(const PlanShape&, Steps&);
};

// What may change so that a rule holds.
std::vector<Knob> KnobsOf(Rule rule) {
  constexpr Knob kData{"parallel.data", VaryData};
  constexpr Knob kGroup{"parallel.shard_group", VaryShardGroup};
  constexpr Knob kLeaves{"parallel.virtual_shards", VaryVirtualShards};
  constexpr Knob kMicroBatch{"train.micro_batch", VaryMicroBatch};
  constexpr Knob kTensorDegree{"parallel.tensor", VaryTensor};
  constexpr Knob kContextDegree{"parallel.context", VaryContext};
  constexpr Knob kPipeline{"parallel.pipeline", VaryPipeline};
  constexpr Knob kChunks{"parallel.virtual_stages", VaryVirtualStages};
  constexpr Knob kLayers{"parallel.stages", VaryStages};
  constexpr Knob kKind{"parallel.pipeline_schedule", VarySchedule};
  switch (rule) {
    case kShards:
      return {kData, kGroup};
    case kBatch:
      return {kData, kGroup, kLeaves, kMicroBatch};
    case kTensor:
      return {kTensorDegree, kContextDegree, kMicroBatch};
    case kContext:
      return {kTensorDegree, kContextDegree, {"parallel.context_method", VaryContextMethod}};
    case kStages:
      return {kPipeline, kKind, kChunks, kLayers};
    case kSchedule:
      return {kMicroBatch, kPipeline, kKind,
              kChunks,     kLayers,   {"parallel.micro_order", VaryMicroOrder}};
    case kExperts:
      return {{"parallel.expert", VaryExpert}};
    case kRecompute:
      return {{"parallel.recompute.layers", VaryRecompute}};
  }
  return {};
}

// --- The search.

class Search {
 public:
  Search(const PlanShape& plan, const std::vector<std::string>& savable)
      : savable_(savable), plan_(plan) {
    // Names that nobody knows: which were meant is not for us to say.
    std::erase_if(plan_.recompute_saves, [&](const std::string& name) {
      return std::find(savable.begin(), savable.end(), name) == savable.end();
    });
  }

  // Rule by rule. Whether all hold then.
  bool Run() {
    for (int r = 0; r < kRuleCount; ++r) {
      const Rule rule = static_cast<Rule>(r);
      const BrokenRules broken = FindBroken(plan_, savable_);
      if (!broken[rule].has_value()) continue;
      // Later rules may have to suffer, and are mended in their turn.
      std::optional<PlanShape> mended = Mend(rule, broken, kRuleCount);
      if (!mended.has_value()) mended = Mend(rule, broken, rule);
      if (!mended.has_value()) return false;
      for (const Setting& change : Changes(plan_, *mended)) changed_[rule].insert(change.field);
      plan_ = *std::move(mended);
    }
    return true;
  }

  const PlanShape& plan() const { return plan_; }
  // Fields changed for a rule's sake.
  const std::set<std::string>& changed(int rule) const { return changed_[rule]; }

 private:
  struct Node {
    double cost = 0;
    int64_t serial = 0;    // of equal ones the first found
    size_t next_knob = 0;  // each is turned once at most, in their order
    PlanShape plan;

    bool operator<(const Node& other) const {  // the cheapest is the queue's first
      return std::pair(cost, serial) > std::pair(other.cost, other.serial);
    }
  };

  // Cheapest first (Dijkstra). Of rules that hold, those below `kept` go on holding.
  std::optional<PlanShape> Mend(Rule rule, const BrokenRules& broken, int kept) const {
    constexpr int kMostLooks = 4000;
    const std::vector<Knob> knobs = KnobsOf(rule);
    const std::string& field = broken[rule]->field;
    const std::string blamed = field.substr(0, field.find('['));
    std::priority_queue<Node> queue;
    int64_t serial = 0;
    queue.push({.plan = plan_});
    for (int look = 0; look < kMostLooks && !queue.empty(); ++look) {
      const Node node = queue.top();
      queue.pop();
      if (IsMended(rule, broken, FindBroken(node.plan, savable_), kept)) return node.plan;
      for (size_t k = node.next_knob; k < knobs.size(); ++k) {
        const double weight = blamed == knobs[k].field ? 1 : 2;
        Steps steps;
        knobs[k].vary(node.plan, steps);
        for (Step& step : steps) {
          queue.push({node.cost + weight + step.cost, ++serial, k + 1, std::move(step.plan)});
        }
      }
    }
    return std::nullopt;
  }

  static bool IsMended(Rule rule, const BrokenRules& before, const BrokenRules& now, int kept) {
    if (now[rule].has_value()) return false;
    for (int r = 0; r < kept; ++r) {
      if (now[r].has_value() && !before[r].has_value()) return false;
    }
    return true;
  }

  const std::vector<std::string>& savable_;
  PlanShape plan_;
  std::array<std::set<std::string>, kRuleCount> changed_;
};

}  // namespace

std::optional<PlanShape> NearestLegal(const PlanShape& plan,
                                      const std::vector<std::string>& savable) {
  Search search(plan, savable);
  if (!search.Run()) return std::nullopt;
  return search.plan();
}

void SuggestLegal(const PlanShape& plan, const std::vector<std::string>& savable,
                  BrokenRules& broken) {
  Search search(plan, savable);
  if (!search.Run()) return;
  const std::vector<Setting> changes = Changes(plan, search.plan());
  std::set<std::string> fields;  // of rules that held before
  for (int rule = kRuleCount - 1; rule >= 0; --rule) {
    fields.insert(search.changed(rule).begin(), search.changed(rule).end());
    if (!broken[rule].has_value()) continue;
    std::vector<Setting> own;
    for (const Setting& change : changes) {
      if (fields.contains(change.field)) own.push_back(change);
    }
    // What was changed for another rule's sake may mend this one too.
    const bool of_others = own.empty() && rule != kRecompute;
    broken[rule]->instead = Text(of_others ? changes : own, broken[rule]->field);
    fields.clear();
  }
}

}  // namespace strata::program
