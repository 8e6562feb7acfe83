#include "program/readers/memory.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/passes/layout.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Instruction Touch(std::vector<Operand> operands) {
  return {.mechanism = Mechanism::kSignal, .operands = std::move(operands)};
}

// Persistent on the host: 100 bytes of parameters, twice, and 28 of constants. Transient: on the
// host activations of 1000 bytes from 0 to 1 and 3000 from 1 to 2; on the device 500 at 2.
ProgramSet BigExample() {
  ProgramSet set;
  set.slots = {{.name = "weights",
                .klass = SlotClass::kParameters,
                .bytes = 100,
                .persistent = true,
                .versioned = true},
               {.name = "table", .klass = SlotClass::kConstants, .bytes = 28, .persistent = true}};
  Program train{.name = "train"};
  train.slots = {{.name = "x", .bytes = 1000},
                 {.name = "y", .klass = SlotClass::kWorkspace, .bytes = 3000},
                 {.name = "z", .tier = Tier::kDevice, .bytes = 500},
                 {.name = "never used", .bytes = 9999}};
  const Operand weights{.slot = 0, .bytes = 100};
  Operand next = weights;
  next.version = 1;
  next.access = Access::kWrite;
  train.instructions = {
      Touch({{.slot = 2, .bytes = 1000, .access = Access::kWrite}, weights}),
      Touch({{.slot = 2, .bytes = 1000}, {.slot = 3, .bytes = 3000, .access = Access::kWrite}}),
      Touch({{.slot = 3, .bytes = 3000}, {.slot = 4, .bytes = 500, .access = Access::kWrite}}),
      Touch({next})};
  set.programs = {train};
  return set;
}

TEST(MemoryTest, PeakIsWhatOneWorksOutByHand) {
  ProgramSet set = BigExample();
  ASSERT_TRUE(LayOut(set).ok());
  const MemoryReport report = ReadMemory(set);
  const TierMemory& host = report.tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(host.persistent_bytes, 228);  // the update is unconditional: two copies
  EXPECT_EQ(host.peak_bytes, 228 + 4000);
  EXPECT_EQ(host.peak_program, "train");
  EXPECT_EQ(host.peak_instruction, 1);
  EXPECT_EQ(host.peak_by_class[static_cast<int>(SlotClass::kParameters)], 200);
  EXPECT_EQ(host.peak_by_class[static_cast<int>(SlotClass::kConstants)], 28);
  EXPECT_EQ(host.peak_by_class[static_cast<int>(SlotClass::kActivations)], 1000);
  EXPECT_EQ(host.peak_by_class[static_cast<int>(SlotClass::kWorkspace)], 3000);
  EXPECT_EQ(host.arena_bytes, 2 * kPageBytes);  // a page of state, a page of both slots
  const TierMemory& device = report.tiers[static_cast<int>(Tier::kDevice)];
  EXPECT_EQ(device.peak_bytes, 500);
  EXPECT_EQ(device.peak_instruction, 2);
  EXPECT_EQ(device.arena_bytes, kPageBytes);
  const TierMemory& ssd = report.tiers[static_cast<int>(Tier::kSsd)];
  EXPECT_EQ(ssd.arena_bytes, 0);
  EXPECT_EQ(ssd.peak_instruction, -1);
}

TEST(MemoryTest, PeakIsOfTheLargestProgram) {
  ProgramSet set = BigExample();
  Program decode{.name = "decode", .slots = {{.name = "cache", .bytes = 7000}}};
  decode.instructions = {Touch({}), Touch({{.slot = 2, .bytes = 7000, .access = Access::kWrite}})};
  set.programs.push_back(decode);
  ASSERT_TRUE(LayOut(set).ok());
  const TierMemory host = ReadMemory(set).tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(host.peak_program, "decode");
  EXPECT_EQ(host.peak_instruction, 1);
  EXPECT_EQ(host.peak_bytes, 228 + 7000);
  EXPECT_EQ(host.arena_bytes, 3 * kPageBytes);
}

TEST(MemoryTest, WhatSlotsHoldIsAddedUpWhereTheyAreAlive) {
  ProgramSet set = BigExample();
  set.slots[0].content = "weights, f32";
  for (Slot& slot : set.programs[0].slots) slot.content = "gradients, bf16";
  ASSERT_TRUE(LayOut(set).ok());
  const TierMemory host = ReadMemory(set).tiers[static_cast<int>(Tier::kHost)];
  int64_t weights = 0, gradients = 0;
  for (const TierMemory::Content& content : host.contents) {
    (content.what == "weights, f32" ? weights : gradients) += content.bytes;
  }
  EXPECT_EQ(weights, 2 * 100);
  EXPECT_EQ(gradients, 1000 + 3000);  // at the peak
  EXPECT_THAT(ReadMemory(set).ToText(), HasSubstr("    gradients, bf16"));
}

TEST(MemoryTest, TextNamesUsedTiersAndClassesOnly) {
  ProgramSet set = BigExample();
  ASSERT_TRUE(LayOut(set).ok());
  const std::string text = ReadMemory(set).ToText();
  EXPECT_THAT(text, HasSubstr("host: 8.00 KiB (8192 bytes), largest in train at instruction 1"));
  EXPECT_THAT(text, HasSubstr("workspace"));
  EXPECT_THAT(text, Not(HasSubstr("ssd")));
  EXPECT_THAT(text, Not(HasSubstr("cache")));
}

TEST(MemoryTest, ArenasHoldThePeakAndClassesSumToItInRandomPrograms) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ProgramSet set = RandomProgram(seed);
    ASSERT_TRUE(LayOut(set).ok());
    for (const TierMemory& memory : ReadMemory(set).tiers) {
      EXPECT_GE(memory.arena_bytes, memory.peak_bytes) << "seed " << seed;
      int64_t sum = 0;
      for (const int64_t bytes : memory.peak_by_class) sum += bytes;
      EXPECT_EQ(sum, memory.peak_bytes);
    }
  }
}

}  // namespace
}  // namespace strata::program
