#include "program/compose/decode.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
#include "program/readers/verify.h"
#include "program/testing/golden.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

constexpr int kBlocks = 4;

std::vector<DecodePrograms> BuildStages(Tier tier, int blocks, int stages) {
  auto built = BuildDecode(ToyGraph({.blocks = blocks}), {.stages = stages, .tier = tier});
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

DecodePrograms Build(Tier tier, int blocks = kBlocks) {
  return std::move(BuildStages(tier, blocks, 1).front());
}

TEST(DecodeTest, Programs_AreVerified) {
  for (const Tier tier : {Tier::kHost, Tier::kDevice}) {
    const DecodePrograms built = Build(tier);
    for (const char* program : {"prefill", "decode"}) {
      const absl::Status status = Verify({&built.set}, program, Mesh{});
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(DecodeTest, StagesOfAnyNumber_AreVerifiedTogether) {
  for (int stages = 2; stages <= kBlocks + 2; ++stages) {
    const std::vector<DecodePrograms> built = BuildStages(Tier::kHost, kBlocks, stages);
    std::vector<const ProgramSet*> sets;
    for (const DecodePrograms& stage : built) sets.push_back(&stage.set);
    for (const char* program : {"prefill", "decode"}) {
      const absl::Status status = Verify(sets, program, Mesh{sets.front()->groups});
      EXPECT_TRUE(status.ok()) << stages << " stages: " << status;
    }
  }
}

TEST(DecodeTest, Stages_HoldEveryParameterAndCacheOnce) {
  int64_t parameters = 0, caches = 0;
  for (const DecodePrograms& stage : BuildStages(Tier::kHost, kBlocks, 3)) {
    for (const Slot& slot : stage.set.slots) {
      if (slot.klass == SlotClass::kParameters) parameters += slot.bytes;
      if (slot.klass == SlotClass::kCache) caches += slot.bytes;
    }
  }
  const int64_t whole = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
  EXPECT_EQ(parameters, whole);
  EXPECT_EQ(caches, kBlocks * toy::kCache);
}

TEST(DecodeTest, MoreStagesThanLayers_AreRefused) {
  const auto refused = BuildDecode(ToyGraph({.blocks = 2}), {.stages = 5});
  EXPECT_EQ(refused.status().message(), "5 stages for 4 layers: each needs one of its own");
}

TEST(DecodeTest, Peak_IsWhatOneWorksOutByHand) {
  const TierMemory memory = ReadMemory(Build(Tier::kHost).set).tiers[static_cast<int>(Tier::kHost)];
  const int64_t parameters = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
  EXPECT_EQ(memory.persistent_bytes,
            parameters + kBlocks * toy::kCache + toy::kLogits + kScalarBytes);
  // Prefill: a block's input and output, its locals.
  EXPECT_EQ(memory.peak_bytes - memory.persistent_bytes, 2 * toy::kBoundary + toy::kForwardLocal);
  EXPECT_EQ(memory.peak_program, "prefill");
}

// Weights elsewhere: a window of them, whatever the layers, and everything else as before.
TEST(DecodeTest, StreamedLayers_AreVerifiedAndTakeNoMoreOnTheDeviceThanTheWindow) {
  const auto bytes = [](int blocks, const Place& place, const Streaming& streaming,
                        int64_t limit = 0) {
    auto built = BuildDecode(ToyGraph({.blocks = blocks}), {.tier = Tier::kDevice,
                                                            .parameters = place,
                                                            .streaming = streaming,
                                                            .device_limit = limit});
    EXPECT_TRUE(built.ok()) << built.status();
    const ProgramSet& set = built->front().set;
    for (const char* program : {"prefill", "decode"}) {
      const absl::Status status = Verify({&set}, program, {.sizes = set.groups});
      EXPECT_TRUE(status.ok()) << program << ": " << status;
    }
    EXPECT_EQ(set.arena(Tier::kSsd) > 0, place.ssd > 0);
    return set.arena(Tier::kDevice);
  };
  for (const Place& place : {Place{.host = 1}, Place{.ssd = 1}, Place{.host = 0.5, .ssd = 0.5}}) {
    EXPECT_EQ(bytes(24, place, {.resident = 2}) - bytes(8, place, {.resident = 2}),
              16 * toy::kCache);
    EXPECT_EQ(bytes(24, place, {.resident = 5}) - bytes(24, place, {.resident = 2}),
              3 * toy::kBlockSet);
    const int64_t one = bytes(24, place, {.resident = 1});
    EXPECT_LE(bytes(24, place, {}, one + 3 * toy::kBlockSet), one + 3 * toy::kBlockSet);
    EXPECT_GT(bytes(24, place, {}, one + 3 * toy::kBlockSet), one + 2 * toy::kBlockSet);
  }
  EXPECT_GE(bytes(24, {}, {}) - bytes(24, {.host = 0.5}, {.resident = 1}), 11 * toy::kBlockSet);
}

TEST(DecodeTest, Dump_IsStable) {
  const DecodePrograms built = Build(Tier::kDevice, 2);
  EXPECT_EQ(CompareWithGolden("program/compose/goldens/decode.txt",
                              Dump(built.set, *built.set.find("decode"))),
            "");
}

}  // namespace
}  // namespace strata::program
