// Which gradients make the way to SSD, and which are spared it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

constexpr int kBlocks = 4;

Plan OnSsd(int64_t micro_batches) {
  const Place ssd = {.ssd = 1};
  return {.virtual_shards = 0,
          .global_batch = micro_batches,
          .places = {ssd, ssd, ssd, {}},
          .update = UpdatePolicy::kSpooled,
          .range_bytes = toy::kTableSet,  // half a block's
          .gradient_clip = 1,
          .tier = Tier::kDevice,
          .scratch = ToyScratch};
}

StagePrograms Build(const Plan& plan, bool tied) {
  auto built = Compose(ToyGraph({.blocks = kBlocks, .tied = tied}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return {};
  EXPECT_TRUE(Verify({&built->front().set}, "train", {}).ok());
  return std::move(built->front());
}

// Streams of the transfers with this in their labels.
std::vector<Stream> StreamsOf(const StagePrograms& programs, absl::string_view what) {
  std::vector<Stream> streams;
  for (const Instruction& instruction : programs.set.programs[0].instructions) {
    if (instruction.mechanism == Mechanism::kTransfer &&
        absl::StrContains(instruction.label, what)) {
      streams.push_back(instruction.stream);
    }
  }
  return streams;
}

int64_t Count(const std::vector<Stream>& streams, Stream stream) {
  return std::count(streams.begin(), streams.end(), stream);
}

TEST(GradientHomesTest, LastGradient_IsTakenFromTheDeviceByItsUpdate) {
  for (const int64_t micro_batches : {1, 2}) {
    const StagePrograms programs = Build(OnSsd(micro_batches), /*tied=*/false);
    const std::vector<Stream> table = StreamsOf(programs, "gradient of table");
    // Between micro-batches it waits on SSD like others.
    EXPECT_EQ(Count(table, Stream::kSsdWrite), 2 * (micro_batches - 1));  // in two pieces
    EXPECT_EQ(Count(table, Stream::kUpdateEvict), 1);
    EXPECT_EQ(Count(table, Stream::kUpdateRead), 0);
    const std::vector<Stream> block = StreamsOf(programs, "gradient of block 0");
    EXPECT_EQ(Count(block, Stream::kSsdWrite), 4 * micro_batches);
    EXPECT_EQ(Count(block, Stream::kUpdateEvict), 0);
    EXPECT_EQ(Count(block, Stream::kUpdateRead), 2);  // a range each
  }
}

TEST(GradientHomesTest, LastGradientOfLessThanARange_GoesHomeLikeOthers) {
  Plan plan = OnSsd(1);
  plan.range_bytes = toy::kBlockSet;
  const std::vector<Stream> table = StreamsOf(Build(plan, /*tied=*/false), "gradient of table");
  EXPECT_EQ(Count(table, Stream::kSsdWrite), 1);
  EXPECT_EQ(Count(table, Stream::kUpdateRead), 1);
}

TEST(GradientHomesTest, TiedTablesGradient_StaysBetweenItsLayersWhereTheLimitAllows) {
  Plan plan = OnSsd(1);
  const StagePrograms leaving = Build(plan, /*tied=*/true);
  EXPECT_EQ(Count(StreamsOf(leaving, "gradient of table"), Stream::kSsdWrite), 2);
  // Small beside the blocks between head and lookup, so that it would be the peak.
  plan.streaming = {.resident = 1};
  plan.device_limit = leaving.set.arena(Tier::kDevice) + toy::kTableSet;
  const StagePrograms staying = Build(plan, /*tied=*/true);
  EXPECT_EQ(Count(StreamsOf(staying, "gradient of table"), Stream::kSsdWrite), 0);
  EXPECT_LE(staying.set.arena(Tier::kDevice), plan.device_limit);
}

TEST(GradientHomesTest, UpdatesOfALayersVectors_ComeBeforeThatOfItsMatrices) {
  const StagePrograms programs = Build(OnSsd(1), /*tied=*/false);
  std::vector<std::string> order;
  for (const Instruction& instruction : programs.set.programs[0].instructions) {
    if (instruction.mechanism == Mechanism::kCall && instruction.purpose == Purpose::kUpdate) {
      order.push_back(instruction.label);
    }
  }
  order.erase(std::unique(order.begin(), order.end()), order.end());  // ranges of one
  EXPECT_THAT(order, testing::ElementsAre("update table", "update block 0", "update block 1",
                                          "update block 2", "update block 3", "update norm",
                                          "update head"));
}

TEST(GradientHomesTest, WhatPassesBring_SharesNoSlabWithWhatTheyTake) {
  const ProgramSet set = Build(OnSsd(2), /*tied=*/false).set;
  const Program& program = set.programs[0];
  int64_t in = 0, out = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream != Stream::kSsdRead && instruction.stream != Stream::kSsdWrite) continue;
    for (const Operand& operand : instruction.operands) {
      const std::string& name = set.slot(program, operand.slot).name;
      if (!absl::StartsWith(name, "slab")) continue;
      const bool reads = instruction.stream == Stream::kSsdRead;
      EXPECT_TRUE(absl::StartsWith(name, reads ? "slab in" : "slab out")) << name;
      ++(reads ? in : out);
    }
  }
  EXPECT_GT(in, 0);
  EXPECT_GT(out, 0);
}

}  // namespace
}  // namespace strata::program
