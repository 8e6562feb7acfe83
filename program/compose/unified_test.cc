// Programs whose parameters and optimizer state are at home in unified memory.
#include "program/ir/unified.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/readers/memory.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;

constexpr int kBlocks = 4;

Plan Unified(const Places& places) {
  return {.virtual_shards = 0,
          .global_batch = 2,
          .evaluate_batch = 1,
          .places = places,
          .streaming = {.resident = 2},
          .gradient_clip = 1,
          .tier = Tier::kDevice,
          .scratch = ToyScratch};
}
const Places kBoth = {.parameters = {.unified = 1}, .optimizer = {.unified = 1}};

ProgramSet Build(const Plan& plan, bool tied = false, int blocks = kBlocks) {
  auto built = Compose(ToyGraph({.blocks = blocks, .tied = tied}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? std::move((*built)[0].set) : ProgramSet{};
}

bool IsRoom(const Slot& slot) { return slot.tier == Tier::kDevice && IsUnified(slot); }
bool IsHome(const Slot& slot) { return slot.tier == Tier::kHost && IsUnified(slot); }

TEST(UnifiedTest, EveryProgram_IsVerified) {
  for (const Places& places :
       {kBoth, Places{.parameters = {.unified = 1}},
        Places{.gradients = {.host = 1}, .optimizer = {.unified = 0.5}},
        Places{.parameters = {.ssd = 0.5, .unified = 0.5}},
        Places{.parameters = {.host = 0.5, .unified = 0.2}, .optimizer = {.unified = 0.6}},
        Places{.parameters = {.host = 0.5}, .optimizer = {.ssd = 0.4, .unified = 0.6}}}) {
    for (const bool tied : {false, true}) {
      for (const MicroOrder order : {MicroOrder::kDepthFirst, MicroOrder::kLayerFirst}) {
        Plan plan = Unified(places);
        plan.micro_order = order;
        const ProgramSet set = Build(plan, tied);
        for (const Program& program : set.programs) {
          const absl::Status status = Verify({&set}, program.name, {.sizes = set.groups});
          EXPECT_TRUE(status.ok()) << status;
        }
      }
    }
  }
}

// What comes to a room leaves from it, for the home that it came from; each use in between is the
// room's. So pages that are away are known at any time.
TEST(UnifiedTest, EveryStayBeginsAndEndsWithATransfer) {
  const ProgramSet set = Build(Unified(kBoth));
  for (const Program& program : set.programs) {
    std::map<int, Operand> present;  // by room: what of which home
    int stays = 0;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.mechanism != Mechanism::kTransfer) {
        for (const Operand& operand : instruction.operands) {
          const Slot& slot = set.slot(program, operand.slot);
          EXPECT_FALSE(IsHome(slot)) << instruction.label;
          EXPECT_TRUE(!IsRoom(slot) || present.count(operand.slot) == 1) << instruction.label;
        }
        continue;
      }
      const Operand &from = instruction.operands[0], &to = instruction.operands[1];
      if (IsRoom(set.slot(program, to.slot))) {
        EXPECT_TRUE(IsHome(set.slot(program, from.slot))) << instruction.label;
        EXPECT_TRUE(present.emplace(to.slot, from).second) << instruction.label;
        ++stays;
      } else if (IsRoom(set.slot(program, from.slot))) {
        ASSERT_EQ(present.count(from.slot), 1u) << instruction.label;
        const Operand& home = present[from.slot];
        EXPECT_EQ(home.slot, to.slot) << instruction.label;
        EXPECT_EQ(home.offset, to.offset) << instruction.label;
        EXPECT_EQ(home.bytes, to.bytes) << instruction.label;
        present.erase(from.slot);
      }
    }
    EXPECT_TRUE(present.empty()) << program.name;
    EXPECT_GT(stays, kBlocks) << program.name;
  }
}

TEST(UnifiedTest, HomesAndRoomsHavePagesOfTheirOwnBehindTheArenas) {
  const ProgramSet set = Build(Unified(kBoth));
  const int64_t host = UnifiedBegin(set, Tier::kHost), device = UnifiedBegin(set, Tier::kDevice);
  int64_t homes = 0;
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Placement& place = set.placements[s];
    if (IsHome(set.slots[s])) {
      homes += UnifiedPages(set.slots[s].bytes) * kUnifiedPage;
      EXPECT_EQ(place.offset % kUnifiedPage, 0);
      EXPECT_EQ(place.copies, 1);
    } else if (set.slots[s].tier == Tier::kHost) {
      EXPECT_LE(place.offset + set.slots[s].bytes, host);
    }
  }
  EXPECT_GT(homes, 0);
  EXPECT_EQ(homes, set.arena(Tier::kHost) - host);
  for (const Program& program : set.programs) {
    for (size_t s = 0; s < program.slots.size(); ++s) {
      const Slot& slot = program.slots[s];
      if (slot.tier != Tier::kDevice) continue;
      const int64_t begin = program.placements[s].offset;
      EXPECT_TRUE(IsRoom(slot) ? begin >= device && begin % kUnifiedPage == 0
                               : begin + slot.bytes <= device)
          << slot.name;
    }
  }
  // Rooms are what is there at once: fewer than all, and counted by the memory report.
  const int64_t rooms = set.arena(Tier::kDevice) - device;
  EXPECT_GE(rooms, 2 * UnifiedPages(toy::kBlockSet) * kUnifiedPage);
  EXPECT_GE(ReadMemory(set).tiers[static_cast<int>(Tier::kDevice)].arena_bytes, device + rooms);
}

// A few calls' worth, of passes and of updates.
TEST(UnifiedTest, RoomsDoNotGrowWithLayers) {
  const auto rooms = [](int blocks) {
    const ProgramSet set = Build(Unified(kBoth), /*tied=*/false, blocks);
    return set.arena(Tier::kDevice) - UnifiedBegin(set, Tier::kDevice);
  };
  const int64_t few = rooms(6);
  EXPECT_EQ(rooms(24), few);
  // Weights and two moments of three updates.
  EXPECT_LE(few, 3 * 3 * kUnifiedPage);
}

TEST(UnifiedTest, WhatCannotBe_IsRefused) {
  const auto refusal = [](const Plan& plan) {
    return std::string(Compose(ToyGraph({}), plan, ToyUpdate).status().message());
  };
  EXPECT_THAT(refusal(Unified({.gradients = {.unified = 1}})),
              HasSubstr("unified memory is for parameters and optimizer state"));
  EXPECT_THAT(refusal(Unified({.activations = {.unified = 0.5}})),
              HasSubstr("not for gradients or activations"));
  Plan plan = Unified(kBoth);
  plan.update = UpdatePolicy::kSpeculative;
  EXPECT_THAT(refusal(plan), HasSubstr("one version of state"));
  plan = Unified(kBoth);
  plan.shard = ShardLevel::kOptimizer;
  plan.groups.data = plan.groups.shard = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("whole on every rank"));
  plan = Unified({.parameters = {.unified = 1}, .optimizer = {.host = 0.1}});
  EXPECT_THAT(refusal(plan), HasSubstr("state is on device or unified"));
  plan = Unified(kBoth);
  plan.tier = Tier::kHost;
  EXPECT_THAT(refusal(plan), HasSubstr("no device"));
}

}  // namespace
}  // namespace strata::program
