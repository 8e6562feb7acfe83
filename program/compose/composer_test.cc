#include "program/compose/composer.h"

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
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
      bytes.push_back(stage.set.arena_bytes[static_cast<int>(Tier::kHost)] - 2 * passes * 16 * 4);
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

}  // namespace
}  // namespace strata::program
