#include "program/compose/composer.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
#include "program/readers/timeline.h"
#include "program/readers/verify.h"
#include "program/testing/golden.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;

constexpr int kBlocks = 4;

Plan DataPlan(int data, ShardLevel shard, int64_t virtual_shards, int64_t batch = 16) {
  Plan plan{.groups = {.data = data},
            .shard = shard,
            .virtual_shards = virtual_shards,
            .global_batch = batch,
            .evaluate_batch = 5,
            .gradient_clip = 1,
            .scratch = ToyScratch};
  if (shard != ShardLevel::kNone) plan.groups.shard = data;
  return plan;
}

std::vector<StagePrograms> Build(const Plan& plan, bool tied = false) {
  auto built = Compose(ToyGraph({.blocks = kBlocks, .tied = tied}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? *std::move(built) : std::vector<StagePrograms>{};
}

absl::Status VerifyAll(const std::vector<StagePrograms>& stages) {
  std::vector<const ProgramSet*> sets;
  for (const StagePrograms& stage : stages) sets.push_back(&stage.set);
  const Mesh mesh{.sizes = stages.front().set.groups};
  for (const Program& program : stages.front().set.programs) {
    if (absl::Status status = Verify(sets, program.name, mesh); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Text(const Plan& plan) {
  return absl::StrCat("data ", plan.groups.data, " shard ", plan.groups.shard, " level ",
                      static_cast<int>(plan.shard), " V ", plan.virtual_shards, " order ",
                      static_cast<int>(plan.micro_order), " stages ", plan.groups.pipeline);
}

TEST(ComposerTest, EveryDataParallelLayout_IsVerified) {
  for (const int data : {1, 2, 4, 8}) {
    for (const int level : {0, 1, 2, 3}) {
      for (const int shard : {1, 2, 4, 8}) {
        if (shard > data || (level == 0 && shard > 1) || (level > 0 && shard == 1 && data > 1)) {
          continue;
        }
        for (const int64_t leaves : {0, 8, 16}) {
          for (const MicroOrder order : {MicroOrder::kDepthFirst, MicroOrder::kLayerFirst}) {
            for (const bool tied : {false, true}) {
              Plan plan = DataPlan(data, static_cast<ShardLevel>(level), leaves);
              plan.groups.shard = shard;
              plan.micro_order = order;
              const std::vector<StagePrograms> built = Build(plan, tied);
              ASSERT_FALSE(built.empty()) << Text(plan);
              const absl::Status status = VerifyAll(built);
              ASSERT_TRUE(status.ok()) << Text(plan) << ": " << status;
            }
          }
        }
      }
    }
  }
}

TEST(ComposerTest, DumpsAreStable) {
  const std::tuple<const char*, int, ShardLevel, int64_t> cases[] = {
      {"none", 2, ShardLevel::kNone, 4},
      {"zero1", 2, ShardLevel::kOptimizer, 4},
      {"zero2", 2, ShardLevel::kGradients, 4},
      {"zero3", 4, ShardLevel::kParameters, 0},
  };
  for (const auto& [name, data, shard, leaves] : cases) {
    const std::vector<StagePrograms> built = Build(DataPlan(data, shard, leaves, 8));
    std::string text;
    for (const Program& program : built[0].set.programs) text += Dump(built[0].set, program);
    EXPECT_EQ(CompareWithGolden(absl::StrCat("program/compose/goldens/", name, ".txt"), text), "");
  }
}

int64_t BytesOf(const StagePrograms& stage, SlotClass klass) {
  int64_t bytes = 0;
  for (const Slot& slot : stage.set.slots) bytes += slot.klass == klass ? slot.bytes : 0;
  return bytes;
}

TEST(ComposerTest, EachLevelOfSharding_CutsItsClassOfBytes) {
  const int64_t cut = 2 * toy::kTableSet + kBlocks * toy::kBlockSet;
  for (const int level : {0, 1, 2, 3}) {
    const StagePrograms stage = Build(DataPlan(4, static_cast<ShardLevel>(level), 16))[0];
    EXPECT_EQ(BytesOf(stage, SlotClass::kOptimizer),
              2 * (cut / (level >= 1 ? 4 : 1) + toy::kNormSet))
        << level;
    EXPECT_EQ(BytesOf(stage, SlotClass::kParameters), cut / (level == 3 ? 4 : 1) + toy::kNormSet)
        << level;
  }
}

// Without a tree, gradient bytes do not grow with the number of micro-batches.
TEST(ComposerTest, WithoutATree_ArenasDoNotGrowWithAccumulation) {
  for (const ShardLevel shard : {ShardLevel::kGradients, ShardLevel::kParameters}) {
    std::vector<int64_t> bytes;
    for (const int64_t passes : {1, 4, 16, 64}) {
      const StagePrograms stage = Build(DataPlan(2, shard, 0, 2 * passes))[0];
      // Only the batch itself grows: tokens and targets of 16 positions.
      bytes.push_back(stage.set.arena(Tier::kHost) - 2 * passes * 16 * 4);
    }
    // From the second micro-batch on there are parts that wait to be added.
    EXPECT_LE(bytes[1] - bytes[0], 3 * toy::kBlockSet);
    for (const size_t more : {2, 3}) {
      EXPECT_NEAR(static_cast<double>(bytes[more]), static_cast<double>(bytes[1]), 4096);
    }
  }
}

TEST(ComposerTest, NoCommunicationIsPredicated_UpdatesAre) {
  for (const int level : {1, 2, 3}) {
    for (const StagePrograms& stage : Build(DataPlan(2, static_cast<ShardLevel>(level), 2))) {
      int updates = 0;
      for (const Instruction& instruction : stage.set.find("train")->instructions) {
        if (instruction.predicate.has_value()) {
          EXPECT_EQ(instruction.purpose, Purpose::kUpdate) << instruction.label;
          ++updates;
        }
      }
      EXPECT_EQ(updates, kBlocks + 3);
    }
  }
}

TEST(ComposerTest, WhatDoesNotDivide_IsRefused) {
  Plan plan = DataPlan(2, ShardLevel::kNone, 3, 6);
  EXPECT_THAT(Compose(ToyGraph({}), plan, ToyUpdate).status().message(),
              HasSubstr("virtual_shards 3"));
  plan.virtual_shards = 4;
  EXPECT_THAT(Compose(ToyGraph({}), plan, ToyUpdate).status().message(),
              HasSubstr("global batch 6"));
}

int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

// The refusal of a stage's train program.
std::string Refusal(const StagePrograms& stage) {
  return std::string(Verify({&stage.set}, "train", {.sizes = stage.set.groups}).message());
}

TEST(ComposerTest, PeakMemory_IsWhatOneWorksOutByHand) {
  // One rank, one micro-batch. State: scalars; parameters and two moments of all sets.
  const int64_t parameters = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
  const int64_t state = kScalarBytes + 3 * parameters;
  // Largest at the end of the step's backward: all gradients but the table's are alive; with them
  // the tokens, the loss, and, in the backward of block 0, what that reads and its locals.
  const int64_t alive = parameters - toy::kTableSet + 16 * 4 + 8 + toy::kBoundary + toy::kSaved +
                        toy::kBackwardLocal + toy::kBoundary;
  Plan plan = DataPlan(1, ShardLevel::kNone, 1, 1);
  const StagePrograms stage = Build(plan)[0];
  const TierMemory memory = ReadMemory(stage.set).tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(memory.persistent_bytes, state);
  EXPECT_EQ(memory.peak_bytes, state + alive);
  EXPECT_EQ(memory.peak_program, "train");
  EXPECT_EQ(stage.set.programs[0].instructions[memory.peak_instruction].label,
            "backward block 0 micro 0");
  // The arena is the peak, rounded to pages twice (state, then transient), plus at most what
  // 64-byte alignment costs.
  EXPECT_GE(memory.arena_bytes, memory.peak_bytes);
  EXPECT_LE(memory.arena_bytes, memory.peak_bytes + 3 * 4096);
}

TEST(ComposerTest, PartialGradients_NeedOneBufferPerLevelOfTheTree) {
  for (const auto& [data, leaves, buffers] :
       {std::tuple{1, 1, 1}, {1, 2, 2}, {1, 4, 3}, {2, 4, 2}, {1, 8, 4}, {1, 6, 3}}) {
    const StagePrograms stage = Build(DataPlan(data, ShardLevel::kNone, leaves, 24))[0];
    const Program& train = *stage.set.find("train");
    // By place: later leaves take the bytes of those that have been added.
    int most = 0;
    std::map<int, std::pair<int, int>> alive;  // by slot: first and last use
    for (size_t i = 0; i < train.instructions.size(); ++i) {
      for (const Operand& operand : train.instructions[i].operands) {
        const Slot& slot = stage.set.slot(train, operand.slot);
        if (slot.klass != SlotClass::kGradients || !absl::StrContains(slot.name, "block 0"))
          continue;
        const int at = static_cast<int>(i);
        alive.try_emplace(operand.slot, at, at).first->second.second = at;
      }
    }
    for (size_t i = 0; i < train.instructions.size(); ++i) {
      int now = 0;
      for (const auto& [slot, use] : alive) {
        now += use.first <= static_cast<int>(i) && static_cast<int>(i) <= use.second;
      }
      most = std::max(most, now);
    }
    EXPECT_EQ(most, buffers) << data << " " << leaves;
  }
}

TEST(ComposerTest, Reductions_HideUnderTheRestOfBackward) {
  const StagePrograms stage = Build(DataPlan(4, ShardLevel::kOptimizer, 4))[0];
  // Links so fast that all but the first layer's reduction fits under the backward that follows it.
  const RateCostModel costs({.flops_per_second = 1e9,
                             .memory_bytes_per_second = 1e9,
                             .link_bytes_per_second = 1e9,
                             .link_latency_seconds = 0});
  const auto timeline = PredictTimeline({&stage.set}, "train", {.sizes = stage.set.groups}, costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const double reduce = timeline->ranks[0].background[static_cast<int>(Purpose::kReduce)];
  const double gather = timeline->ranks[0].background[static_cast<int>(Purpose::kGather)];
  EXPECT_GT(reduce, 0);
  EXPECT_GT(gather, 0);
  EXPECT_LT(timeline->ranks[0].exposed_seconds, (reduce + gather) / 2);
  EXPECT_THAT(timeline->Draw(0, 80), HasSubstr("gradients"));
}

TEST(ComposerTest, RemovedDependency_IsARace) {
  StagePrograms stage = Build(DataPlan(2, ShardLevel::kOptimizer, 2))[0];
  Program& train = stage.set.programs[0];
  Instruction& reduce = train.instructions[IndexOf(train, "reduce block 1")];
  ASSERT_FALSE(reduce.dependencies.empty());
  reduce.dependencies.clear();
  const std::string message = Refusal(stage);
  EXPECT_THAT(message, HasSubstr("race"));
  EXPECT_THAT(message, HasSubstr("reduce block 1"));
  EXPECT_THAT(message, HasSubstr("gradient of block 1"));
}

TEST(ComposerTest, RemovedDependencyAcrossTheStepBoundary_IsARace) {
  StagePrograms stage = Build(DataPlan(2, ShardLevel::kOptimizer, 2))[0];
  int removed = 0;
  for (Instruction& instruction : stage.set.programs[0].instructions) {
    removed += std::erase_if(instruction.dependencies,
                             [](const Dependency& d) { return d.steps_back == 1; });
  }
  ASSERT_GT(removed, 0);
  const std::string message = Refusal(stage);
  EXPECT_THAT(message, HasSubstr("race"));
  EXPECT_THAT(message, HasSubstr("of step 1"));
}

TEST(ComposerTest, MissingReduction_IsRefused) {
  StagePrograms stage = Build(DataPlan(2, ShardLevel::kNone, 2))[0];
  Program& train = stage.set.programs[0];
  Instruction& reduce = train.instructions[IndexOf(train, "reduce block 0")];
  reduce.mechanism = Mechanism::kSignal;
  reduce.operands.clear();
  const std::string message = Refusal(stage);
  EXPECT_THAT(message, HasSubstr("must be complete but is a partial sum over data"));
  EXPECT_THAT(message, HasSubstr("norm block 0"));
}

TEST(ComposerTest, OverlappingBytes_AreRefused) {
  StagePrograms stage = Build(DataPlan(1, ShardLevel::kNone, 1, 1))[0];
  Program& train = stage.set.programs[0];
  int saved = -1, output = -1;
  for (size_t s = 0; s < train.slots.size(); ++s) {
    if (train.slots[s].name == "saved0 of block 0 micro 0") saved = static_cast<int>(s);
    if (train.slots[s].name == "output0 of block 0 micro 0") output = static_cast<int>(s);
  }
  ASSERT_GE(saved, 0);
  ASSERT_GE(output, 0);
  train.placements[output].offset = train.placements[saved].offset;
  const std::string message = Refusal(stage);
  EXPECT_THAT(message, HasSubstr("output0 of block 0 micro 0"));
  EXPECT_THAT(message, HasSubstr("saved0 of block 0 micro 0"));
}

TEST(ComposerTest, CollectivesInAnotherOrderOnOneRank_AreRefused) {
  // Two stages of one pipeline stand for two ranks with different programs in one group.
  StagePrograms one = Build(DataPlan(2, ShardLevel::kNone, 2))[0], other = one;
  Program& train = other.set.programs[0];
  std::swap(train.instructions[IndexOf(train, "reduce block 0")].communication,
            train.instructions[IndexOf(train, "reduce norm")].communication);
  for (StagePrograms* programs : {&one, &other}) {
    for (Instruction& instruction : programs->set.programs[0].instructions) {
      if (instruction.communication.group == Group::kData) {
        instruction.communication.group = Group::kPipeline;
      }
    }
  }
  const std::string message(
      VerifyGroups({&one.set, &other.set}, "train", {.sizes = {.pipeline = 2}}).message());
  EXPECT_THAT(message, HasSubstr("ranks {0, 1}"));
  EXPECT_THAT(message, HasSubstr("rank 0 at"));
  EXPECT_THAT(message, HasSubstr("rank 1 at"));
  EXPECT_THAT(message, HasSubstr("but rank "));
  EXPECT_NE(GroupDigests(one.set), GroupDigests(other.set));
}

TEST(ComposerTest, Digests_DependOnPlanAndBuildOnly) {
  const auto digest = [](ShardLevel shard, const char* build) {
    return ProgramDigest(Build(DataPlan(2, shard, 2))[0].set, build);
  };
  EXPECT_EQ(digest(ShardLevel::kOptimizer, "b"), digest(ShardLevel::kOptimizer, "b"));
  EXPECT_NE(digest(ShardLevel::kOptimizer, "b"), digest(ShardLevel::kOptimizer, "c"));
  EXPECT_NE(digest(ShardLevel::kOptimizer, "b"), digest(ShardLevel::kNone, "b"));
}

}  // namespace
}  // namespace strata::program
