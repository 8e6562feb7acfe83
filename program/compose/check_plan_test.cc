#include "program/compose/check_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "common/rng.h"

namespace strata::program {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Shard = PlanShape::Shard;
using Schedule = PlanShape::Schedule;

const std::vector<std::string>& Savable() {
  static const auto& names = *new std::vector<std::string>{"qkv", "attention"};
  return names;
}

// Four layers, 8 sequences of 64 tokens in micro-batches of 1.
PlanShape Small() {
  PlanShape plan;
  plan.global_batch = 8;
  plan.micro_batch = 1;
  plan.sequence = 64;
  plan.layers = 4;
  plan.heads = 4;
  plan.kv_heads = 2;
  plan.ffn = 128;
  return plan;
}

PlanShape Data(int64_t data, Shard shard, int64_t virtual_shards, int64_t shard_group = 0) {
  PlanShape plan = Small();
  plan.data = data;
  plan.shard = shard;
  plan.virtual_shards = virtual_shards;
  plan.shard_group = shard_group;
  plan.global_batch = 24;
  return plan;
}

PlanShape Pipeline(int64_t pipeline, Schedule schedule, int64_t virtual_stages,
                   std::vector<int64_t> stages = {}) {
  PlanShape plan = Small();
  plan.pipeline = pipeline;
  plan.schedule = schedule;
  plan.virtual_stages = virtual_stages;
  plan.stages = std::move(stages);
  return plan;
}

PlanShape With(const std::function<void(PlanShape&)>& change) {
  PlanShape plan = Small();
  change(plan);
  return plan;
}

TEST(CheckPlan, LegalLayouts_HaveNoProblem) {
  const PlanShape legal[] = {
      Small(),
      PlanShape{},  // nothing known
      Data(8, Shard::kNone, 8),
      Data(2, Shard::kZero1, 8),
      Data(3, Shard::kZero1, 6),
      Data(3, Shard::kZero3, 0),
      Data(3, Shard::kZero3, 3),
      Data(4, Shard::kZero2, 12),
      Data(4, Shard::kZero3, 8, 2),
      Data(8, Shard::kZero1, 8, 2),
      Data(1, Shard::kZero1, 24, 1),
      Data(4, Shard::kZero1, 4, 4),
      Pipeline(4, Schedule::kGpipe, 1),
      Pipeline(3, Schedule::k1F1B, 1, {1, 2, 1}),
      Pipeline(2, Schedule::kInterleaved, 2, {1, 1, 1, 1}),
      Pipeline(2, Schedule::kZbv, 2),
      Pipeline(3, Schedule::kZeroBubble, 1),
      With([](PlanShape& plan) { plan.layer_first = true; }),
      With([](PlanShape& plan) {
        plan.pipeline = 2;
        plan.schedule = Schedule::kGpipe;
        plan.layer_first = true;
      }),
      With([](PlanShape& plan) { plan.tensor = 4; }),  // twice the kv_heads
      With([](PlanShape& plan) { plan.context = 4; }),
      With([](PlanShape& plan) {
        plan.context = 2;
        plan.context_method = PlanShape::ContextMethod::kAllToAll;
      }),
      With([](PlanShape& plan) {
        plan.recompute_layers = {0, 3};
        plan.recompute_saves = {"attention"};
      }),
  };
  for (const PlanShape& plan : legal) {
    const auto problems = CheckPlan(plan, Savable());
    EXPECT_THAT(problems, IsEmpty()) << (problems.empty() ? "" : problems[0].what);
  }
}

TEST(CheckPlan, IllegalLayouts_AreRefusedAtTheirFieldWithTheirNumbers) {
  struct {
    PlanShape plan;
    std::string field, says;
  } const cases[] = {
      {Data(5, Shard::kNone, 0), "parallel.data", "24 is not divisible by 5"},
      {Data(4, Shard::kNone, 6), "parallel.virtual_shards", "6 is not divisible by parallel.data"},
      {Data(2, Shard::kZero1, 6), "parallel.virtual_shards", "no power of two times"},
      {Data(3, Shard::kZero3, 12), "parallel.virtual_shards", "3 is no power of two"},
      {Data(6, Shard::kZero3, 6, 3), "parallel.virtual_shards", "3 is no power of two"},
      {Data(4, Shard::kZero3, 12, 2), "parallel.virtual_shards", "6 each is no power of two"},
      {Data(2, Shard::kNone, 16), "parallel.virtual_shards", "not divisible by virtual_shards 16"},
      {Data(4, Shard::kZero3, 0, 3), "parallel.shard_group", "4 is not divisible by shard_group 3"},
      {Data(4, Shard::kNone, 4, 2), "parallel.shard_group", "without shards"},
      {Data(4, Shard::kZero2, 0, 1), "parallel.shard_group", "shards nothing"},
      {With([](PlanShape& plan) { plan.micro_batch = 3; }), "train.micro_batch",
       "8 is not divisible by micro_batch 3"},
      {With([](PlanShape& plan) { plan.tensor = 3; }), "parallel.tensor",
       "heads 4 and kv_heads 2 and ffn 128"},
      {With([](PlanShape& plan) { plan.tensor = 8; }), "parallel.tensor", "heads 4"},
      {With([](PlanShape& plan) {
         plan.tensor = 4;
         plan.sequence = 63;
       }),
       "parallel.tensor", "the 63 tokens"},
      {With([](PlanShape& plan) { plan.context = 3; }), "parallel.context",
       "64 is not divisible by 2 × context 3"},
      {With([](PlanShape& plan) {
         plan.context = 8;
         plan.context_method = PlanShape::ContextMethod::kAllToAll;
       }),
       "parallel.context", "needs heads for every rank: heads 4"},
      {Pipeline(5, Schedule::k1F1B, 1), "parallel.pipeline", "more than the model's layers (4)"},
      {Pipeline(2, Schedule::kInterleaved, 3), "parallel.pipeline", "layers (4)"},
      {Pipeline(2, Schedule::kZbv, 1), "parallel.virtual_stages", "zbv has 2"},
      {Pipeline(2, Schedule::k1F1B, 2), "parallel.virtual_stages", "one stage per rank"},
      {Pipeline(2, Schedule::kInterleaved, 1), "parallel.virtual_stages", "at least 2"},
      {Pipeline(2, Schedule::k1F1B, 1, {1, 2}), "parallel.stages",
       "3 layers in all, the model has 4"},
      {Pipeline(2, Schedule::k1F1B, 1, {1, 2, 1}), "parallel.stages", "3 stages are listed"},
      {Pipeline(2, Schedule::k1F1B, 1, {5, -1}), "parallel.stages[1]", "-1"},
      {With([](PlanShape& plan) {
         plan.pipeline = 2;
         plan.layer_first = true;
       }),
       "parallel.pipeline_schedule", "layer_first in a pipeline needs gpipe"},
      {With([](PlanShape& plan) { plan.expert = 2; }), "parallel.expert", "dense"},
      {With([](PlanShape& plan) {
         plan.recompute_layers = {2, 9};
       }),
       "parallel.recompute.layers", "2-9 of a model whose layers are 0-3"},
      {With([](PlanShape& plan) {
         plan.recompute_saves = {"qkv", "keys"};
       }),
       "parallel.recompute.save[1]", "keys (the values are qkv, attention)"},
  };
  for (const auto& c : cases) {
    const auto problems = CheckPlan(c.plan, Savable());
    ASSERT_EQ(problems.size(), 1u) << c.field << " " << c.says;
    EXPECT_EQ(problems[0].field, c.field);
    EXPECT_THAT(problems[0].what, HasSubstr(c.says));
  }
}

TEST(CheckPlan, MicroBatchesThatDoNotGoRound_AreRefusedOnlyWithChunks) {
  PlanShape plan = Pipeline(3, Schedule::kInterleaved, 2);
  plan.layers = 8;
  EXPECT_THAT(CheckPlan(plan, Savable())[0].what, HasSubstr("8 micro-batches"));
  plan.schedule = Schedule::kZbv;
  EXPECT_THAT(CheckPlan(plan, Savable()), IsEmpty());
}

TEST(CheckPlan, SeveralProblems_AreToldAtOnce) {
  PlanShape plan = Small();
  plan.data = 3;
  plan.tensor = 3;
  plan.expert = 2;
  const auto problems = CheckPlan(plan, Savable());
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].field, "parallel.data");
  EXPECT_EQ(problems[2].field, "parallel.expert");
}

TEST(CheckPlan, ARefusedPlan_ComesWithTheNearestLegalOne) {
  PlanShape two = Data(3, Shard::kNone, 4);  // four leaves of three ranks, and 24 sequences
  PlanShape both = With([](PlanShape& plan) { plan.data = plan.tensor = 3; });
  PlanShape large = Pipeline(4, Schedule::kInterleaved, 2, {1, 1, 2, 4, 4, 2, 1, 1});
  large.layers = 18;
  struct {
    PlanShape plan;
    std::string instead;
  } const cases[] = {
      {Data(5, Shard::kNone, 0), "use data: 4"},
      {Data(5, Shard::kNone, 5), "use data: 4, virtual_shards: 4"},  // what is data by default
      {Data(2, Shard::kZero1, 6), "use virtual_shards: 4"},
      {Data(3, Shard::kZero3, 12), "use virtual_shards: off"},
      {Data(4, Shard::kZero3, 0, 3), "use shard_group: 2"},
      {Data(4, Shard::kNone, 4, 2), "remove shard_group"},
      {two, "use virtual_shards: 3"},
      {With([](PlanShape& plan) { plan.micro_batch = 3; }), "use micro_batch: 2"},
      {With([](PlanShape& plan) { plan.tensor = 3; }), "use tensor: 2"},
      {With([](PlanShape& plan) { plan.context = 3; }), "use context: 2"},
      {With([](PlanShape& plan) {
         plan.context = 8;
         plan.context_method = PlanShape::ContextMethod::kAllToAll;
       }),
       "use context: 4"},
      {Pipeline(5, Schedule::k1F1B, 1), "use pipeline: 4"},
      {Pipeline(2, Schedule::kZbv, 1), "use virtual_stages: 2"},
      {Pipeline(2, Schedule::k1F1B, 2), "use virtual_stages: 1"},
      {Pipeline(2, Schedule::k1F1B, 1, {1, 2}), "use stages: [2, 2]"},
      {large, "use stages: [2, 2, 2, 3, 2, 2, 2, 3]"},
      {With([](PlanShape& plan) {
         plan.pipeline = 2;
         plan.layer_first = true;
       }),
       "use pipeline_schedule: gpipe"},
      {With([](PlanShape& plan) { plan.expert = 2; }), "use expert: 1"},
      {With([](PlanShape& plan) {
         plan.recompute_layers = {2, 9};
       }),
       "use layers: 2-3"},
  };
  for (const auto& c : cases) {
    const auto problems = CheckPlan(c.plan, Savable());
    ASSERT_EQ(problems.size(), 1u) << c.instead;
    EXPECT_EQ(problems[0].instead, c.instead) << problems[0].what;
  }
  const auto problems = CheckPlan(both, Savable());
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].instead, "use data: 2");
  EXPECT_EQ(problems[1].instead, "use tensor: 2");
}

// Sets what a suggestion for `field` says, as a user would in the job file.
void Follow(const std::string& instead, const std::string& field, PlanShape& plan) {
  const std::map<std::string, int64_t PlanShape::*> numbers = {
      {"parallel.data", &PlanShape::data},
      {"parallel.shard_group", &PlanShape::shard_group},
      {"parallel.virtual_shards", &PlanShape::virtual_shards},
      {"train.micro_batch", &PlanShape::micro_batch},
      {"parallel.tensor", &PlanShape::tensor},
      {"parallel.context", &PlanShape::context},
      {"parallel.pipeline", &PlanShape::pipeline},
      {"parallel.virtual_stages", &PlanShape::virtual_stages},
      {"parallel.expert", &PlanShape::expert}};
  const std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved", "zero_bubble", "zbv"};
  const std::vector<std::string> methods = {"ring", "all_gather", "all_to_all"};
  const auto index = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  const auto full = [&](const std::string& key) {
    return key.find('.') == key.npos ? field.substr(0, field.rfind('.') + 1) + key : key;
  };
  const size_t removes = instead.find("remove ");
  if (removes != instead.npos) {
    if (instead.find("stages", removes) != instead.npos) plan.stages.clear();
    if (instead.find("shard_group", removes) != instead.npos) plan.shard_group = 0;
  }
  const std::string uses = instead.substr(0, removes);
  static const std::regex kSetting(R"(([a-z_.]+): (\[[^\]]*\]|[^, ]+))");
  for (std::sregex_iterator at(uses.begin(), uses.end(), kSetting), end; at != end; ++at) {
    const std::string key = full((*at)[1].str()), value = (*at)[2].str();
    if (const auto number = numbers.find(key); number != numbers.end()) {
      plan.*number->second = value == "off" ? 0 : std::stoll(value);
    } else if (key == "parallel.pipeline_schedule") {
      plan.schedule = static_cast<Schedule>(index(schedules, value));
    } else if (key == "parallel.context_method") {
      plan.context_method = static_cast<PlanShape::ContextMethod>(index(methods, value));
    } else if (key == "parallel.micro_order") {
      plan.layer_first = value == "layer_first";
    } else if (key == "parallel.recompute.layers") {
      plan.recompute_layers = {std::stoll(value), std::stoll(value.substr(value.find('-') + 1))};
    } else if (key == "parallel.stages") {
      plan.stages.clear();
      static const std::regex kNumber("[0-9]+");
      for (std::sregex_iterator n(value.begin(), value.end(), kNumber); n != end; ++n) {
        plan.stages.push_back(std::stoll(n->str()));
      }
    } else {
      ADD_FAILURE() << "no setting of a job: " << key << " in: " << instead;
    }
  }
}

PlanShape RandomShape(uint64_t seed) {
  uint64_t next = 0;
  const auto roll = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(common::Philox(seed, next++, 3)[0] % (most - least + 1));
  };
  const auto known = [&](int64_t value) { return roll(1, 12) == 1 ? 0 : value; };
  PlanShape plan;
  plan.data = roll(1, 12);
  plan.tensor = roll(1, 2) * roll(1, 4);
  plan.context = roll(1, 4);
  plan.pipeline = roll(1, 9);
  plan.expert = roll(1, 8) == 1 ? 2 : 1;
  plan.schedule = static_cast<Schedule>(roll(0, 4));
  plan.virtual_stages = roll(1, 2) == 1 ? 1 : roll(1, 4);
  for (int64_t n = roll(0, 2) == 0 ? roll(1, 8) : 0; n > 0; --n) plan.stages.push_back(roll(0, 4));
  plan.shard = static_cast<Shard>(roll(0, 3));
  plan.shard_group = roll(0, 1) * roll(0, 6);
  plan.virtual_shards = roll(0, 1) * roll(0, 24);
  plan.context_method = static_cast<PlanShape::ContextMethod>(roll(0, 2));
  plan.layer_first = roll(0, 2) == 0;
  if (roll(0, 3) == 0) plan.recompute_layers = {roll(-1, 9), roll(0, 30)};
  plan.global_batch = known(roll(1, 8) * roll(1, 12));
  plan.micro_batch = known(roll(1, 9));
  plan.sequence = known(roll(2, 260));
  plan.layers = known(roll(1, 32));
  plan.kv_heads = roll(1, 4);
  plan.heads = known(plan.kv_heads * roll(1, 4));
  plan.ffn = known(roll(1, 400));
  return plan;
}

TEST(CheckPlan, WhatIsSuggestedForRandomIllegalPlans_IsLegal) {
  int legal = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const PlanShape plan = RandomShape(seed);
    const auto problems = CheckPlan(plan, Savable());
    if (problems.empty()) ++legal;
    PlanShape followed = plan;
    for (const PlanProblem& problem : problems) {
      EXPECT_NE(problem.instead, "") << seed << " " << problem.field << ": " << problem.what;
      Follow(problem.instead, problem.field, followed);
    }
    for (const PlanProblem& left : CheckPlan(followed, Savable())) {
      ADD_FAILURE() << "seed " << seed << ", " << problems[0].field << ": " << problems[0].what
                    << " — " << problems[0].instead << ", then " << left.field << ": " << left.what;
    }
    // The training itself is none of the suggestion's business.
    EXPECT_EQ(followed.global_batch, plan.global_batch);
    EXPECT_EQ(followed.sequence, plan.sequence);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_LT(legal, 1000);
}

using Leaves = std::set<int64_t>;

// Every node of the tree over 0…count-1, built pair by pair.
std::set<Leaves> Branches(int64_t count) {
  std::vector<Leaves> level;
  for (int64_t v = 0; v < count; ++v) level.push_back({v});
  std::set<Leaves> all(level.begin(), level.end());
  while (level.size() > 1) {
    std::vector<Leaves> above;
    for (size_t i = 0; i < level.size(); i += 2) {
      Leaves both = level[i];
      if (i + 1 < level.size()) both.insert(level[i + 1].begin(), level[i + 1].end());
      above.push_back(std::move(both));
    }
    level = std::move(above);
    all.insert(level.begin(), level.end());
  }
  return all;
}

// The sums that a layout computes on the way, as the sets of leaves in them: of none and zero1 per
// rank, then shard group; of zero2 and zero3 per micro-step of a shard group, then shard group.
std::set<Leaves> Sums(Shard shard, int64_t data, int64_t group, int64_t shards) {
  const bool ranks_first = shard == Shard::kNone || shard == Shard::kZero1;
  if (shard == Shard::kNone) group = 1;
  const int64_t per_rank = shards / data;
  std::set<Leaves> sums;
  for (int64_t replica = 0; replica < data / group; ++replica) {
    std::vector<Leaves> first(static_cast<size_t>(ranks_first ? group : per_rank));
    Leaves whole;
    for (int64_t r = 0; r < group; ++r) {
      for (int64_t l = 0; l < per_rank; ++l) {
        const int64_t leaf = ranks_first ? (replica * group + r) * per_rank + l
                                         : replica * per_rank * group + l * group + r;
        first[static_cast<size_t>(ranks_first ? r : l)].insert(leaf);
        whole.insert(leaf);
      }
    }
    sums.insert(first.begin(), first.end());
    // Without replicas (or groups) there is one reduction over all ranks, in the tree's order.
    if (group < data || !ranks_first) sums.insert(whole);
  }
  return sums;
}

TEST(SumsAreSubtrees, AnyLayout_IsTrueExactlyWhereEverySumIsABranch) {
  int legal = 0, illegal = 0;
  for (int64_t shards = 1; shards <= 48; ++shards) {
    const std::set<Leaves> branches = Branches(shards);
    for (int64_t data = 1; data <= shards; ++data) {
      for (int64_t group = 1; group <= data; ++group) {
        if (data % group != 0) continue;
        for (const Shard shard : {Shard::kNone, Shard::kZero1, Shard::kZero2, Shard::kZero3}) {
          bool expected = shards % data == 0;
          if (expected) {
            for (const Leaves& sum : Sums(shard, data, group, shards)) {
              expected &= branches.count(sum) > 0;
            }
          }
          ASSERT_EQ(SumsAreSubtrees(shard, data, group, shards), expected)
              << "shard " << static_cast<int>(shard) << " data " << data << " group " << group
              << " virtual_shards " << shards;
          ++(expected ? legal : illegal);
        }
      }
    }
  }
  EXPECT_GT(legal, 500);
  EXPECT_GT(illegal, 500);
}

}  // namespace
}  // namespace strata::program
