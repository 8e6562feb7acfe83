#include "program/compose/decode.h"

#include <utility>

#include "gtest/gtest.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
#include "program/readers/verify.h"
#include "program/testing/golden.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

constexpr int kBlocks = 4;

DecodePrograms Build(Tier tier, int blocks = kBlocks) {
  auto built = BuildDecode(ToyGraph({.blocks = blocks}), tier);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
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

TEST(DecodeTest, Peak_IsWhatOneWorksOutByHand) {
  const TierMemory memory =
      ReadMemory(Build(Tier::kDevice).set).tiers[static_cast<int>(Tier::kDevice)];
  const int64_t parameters = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
  EXPECT_EQ(memory.persistent_bytes,
            parameters + kBlocks * toy::kCache + toy::kLogits + kScalarBytes);
  // Prefill: a block's input and output, its locals.
  EXPECT_EQ(memory.peak_bytes - memory.persistent_bytes, 2 * toy::kBoundary + toy::kForwardLocal);
  EXPECT_EQ(memory.peak_program, "prefill");
}

TEST(DecodeTest, Dump_IsStable) {
  const DecodePrograms built = Build(Tier::kDevice, 2);
  EXPECT_EQ(CompareWithGolden("program/compose/goldens/decode.txt",
                              Dump(built.set, *built.set.find("decode"))),
            "");
}

}  // namespace
}  // namespace strata::program
