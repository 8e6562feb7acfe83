#include "program/builder/streamed.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/decode.h"
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
constexpr int64_t kParameters = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
constexpr int64_t kSets = kBlocks + 3;  // table, blocks, norm, head

ProgramSet Build(const StreamedOptions& options, bool tied = false) {
  auto built = BuildStreamed(ToyGraph({.blocks = kBlocks, .tied = tied}), ToyUpdate, options);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

StreamedOptions Zero3() {
  return {
      .home = Home::kShards, .data = 4, .micro_batches = 4, .resident = 3, .scratch = ToyScratch};
}
StreamedOptions OnSsd(UpdatePolicy policy) {
  return {.home = Home::kSsd, .policy = policy, .micro_batches = 2, .resident = 2, .slabs = 8};
}
StreamedOptions OnHost(int resident, int moved, bool train) {
  return {.home = Home::kHost,
          .micro_batches = 1,
          .resident = resident,
          .moved = moved,
          .train = train};
}

Mesh MeshOf(const ProgramSet& set) { return {.sizes = set.groups}; }
TierMemory MemoryOf(const ProgramSet& set, Tier tier) {
  return ReadMemory(set).tiers[static_cast<int>(tier)];
}
int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}
int64_t TransientOf(const TierMemory& memory) {
  return memory.peak_bytes - memory.persistent_bytes;
}

TEST(StreamedTest, EveryProgramIsVerified) {
  for (const bool tied : {false, true}) {
    for (const StreamedOptions& options :
         {Zero3(), OnSsd(UpdatePolicy::kSpooled), OnSsd(UpdatePolicy::kSpeculative),
          OnHost(2, 1, true), OnHost(4, 2, true), OnHost(4, 2, false), OnHost(1, 1, true),
          OnHost(7, 3, false)}) {
      const ProgramSet set = Build(options, tied);
      const absl::Status status = Verify({&set}, set.programs[0].name, MeshOf(set));
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(StreamedTest, RefusesOptionsThatDoNotGoTogether) {
  const auto status = [](const StreamedOptions& options) {
    return BuildStreamed(ToyGraph({}), ToyUpdate, options).status();
  };
  EXPECT_FALSE(status({.home = Home::kHost, .resident = 1, .moved = 2}).ok());
  EXPECT_FALSE(status({.home = Home::kShards, .data = 1}).ok());
  EXPECT_FALSE(status({.home = Home::kSsd, .policy = UpdatePolicy::kDeferred}).ok());
  EXPECT_FALSE(status({.home = Home::kSsd, .policy = UpdatePolicy::kSpooled, .slabs = 4}).ok());
}

TEST(StreamedTest, Zero3PeakIsWhatOneWorksOutByHand) {
  const ProgramSet set = Build(Zero3());
  const TierMemory memory = MemoryOf(set, Tier::kDevice);
  // A quarter of parameters and both moments, and the scalars.
  EXPECT_EQ(memory.persistent_bytes, 3 * kParameters / 4 + kScalarBytes);
  // In the reduction of the last block's gradient of any micro-batch but the first: three windows
  // and two gradient windows as large as the largest layer (a block); all gradients' shards; the
  // batch; leaves of four ranks; inputs and saved activations of the other blocks; the gradient
  // stream; the other three ranks' pieces and the sum, not yet added.
  const int64_t alive = 3 * toy::kBlockSet + 2 * toy::kBlockSet + kParameters / 4 + 2 * 4 * 16 * 4 +
                        4 * (1 + kSets) * 8 + (kBlocks - 1) * (toy::kBoundary + toy::kSaved) +
                        toy::kBoundary + 3 * toy::kBlockSet / 4 + toy::kBlockSet / 4;
  EXPECT_EQ(set.programs[0].instructions[memory.peak_instruction].label,
            "reduce gradient of block 3 micro 1");
  EXPECT_EQ(TransientOf(memory), alive);
}

TEST(StreamedTest, Zero3HidesGathersThatTheWindowAllowsToPrefetch) {
  // A gather of a block takes as long as a block's forward: hidden with a window, exposed without.
  const RateCostModel costs({.flops_per_second = 1e9,
                             .memory_bytes_per_second = 1e12,
                             .link_bytes_per_second = 0.75 * toy::kBlockSet / 1e-3,
                             .link_latency_seconds = 0});
  double exposed[2] = {};
  for (const int resident : {1, 3}) {
    StreamedOptions options = Zero3();
    options.resident = resident;
    const ProgramSet set = Build(options);
    const auto timeline = PredictTimeline({&set}, "train", MeshOf(set), costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    exposed[resident > 1] = timeline->ranks[0].exposed_seconds;
    EXPECT_THAT(timeline->Draw(0, 60), HasSubstr("parameters"));
  }
  EXPECT_LT(exposed[1], 0.5 * exposed[0]);
}

TEST(StreamedTest, SsdPeaksAreWhatOneWorksOutByHand) {
  for (const UpdatePolicy policy : {UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
    const ProgramSet set = Build(OnSsd(policy));
    const bool speculative = policy == UpdatePolicy::kSpeculative;
    // SSD: parameters and moments, in two versions when updated speculatively, and the gradients on
    // their way.
    const TierMemory ssd = MemoryOf(set, Tier::kSsd);
    EXPECT_EQ(ssd.persistent_bytes, 3 * kParameters * (speculative ? 2 : 1));
    EXPECT_EQ(TransientOf(ssd), kParameters);
    // Host: the slabs, the scalars, the leaves.
    const TierMemory host = MemoryOf(set, Tier::kHost);
    EXPECT_EQ(host.peak_bytes, 8 * toy::kBlockSet + kScalarBytes + (1 + kSets) * 8);
    // Device: two windows, two gradient windows, the batch, the scalars' copy, the loss,
    // activations of one micro-batch.
    const TierMemory device = MemoryOf(set, Tier::kDevice);
    EXPECT_EQ(device.peak_bytes, 2 * toy::kBlockSet + 2 * toy::kBlockSet + 2 * 2 * 16 * 4 +
                                     kScalarBytes + 8 + kBlocks * (toy::kBoundary + toy::kSaved) +
                                     toy::kBoundary + toy::kBackwardLocal);
  }
}

TEST(StreamedTest, LayerStreamingPeaksAreWhatOneWorksOutByHand) {
  for (const int resident : {2, 4}) {
    const ProgramSet evaluate = Build(OnHost(resident, resident / 2, false));
    EXPECT_EQ(MemoryOf(evaluate, Tier::kHost).peak_bytes, kParameters + kScalarBytes + 8);
    // The windows, the targets, the loss, a block's input, output and locals.
    EXPECT_EQ(MemoryOf(evaluate, Tier::kDevice).peak_bytes, resident * toy::kBlockSet + 16 * 4 + 8 +
                                                                2 * toy::kBoundary +
                                                                toy::kForwardLocal + toy::kSaved);
    const ProgramSet train = Build(OnHost(resident, resident / 2, true));
    // Parameters, two moments and gradients of everything.
    EXPECT_EQ(MemoryOf(train, Tier::kHost).peak_bytes,
              4 * kParameters + kScalarBytes + (1 + kSets) * 8);
    EXPECT_EQ(MemoryOf(train, Tier::kDevice).peak_bytes,
              resident * toy::kBlockSet + 2 * toy::kBlockSet + 16 * 4 /* tokens */ + 8 +
                  kBlocks * (toy::kBoundary + toy::kSaved) + toy::kBoundary + toy::kBackwardLocal);
  }
}

TEST(StreamedTest, DecodePeakIsWhatOneWorksOutByHand) {
  const auto built = BuildDecode(ToyGraph({.blocks = kBlocks}), Tier::kDevice);
  ASSERT_TRUE(built.ok()) << built.status();
  const TierMemory memory = MemoryOf(built->set, Tier::kDevice);
  EXPECT_EQ(memory.persistent_bytes,
            kParameters + kBlocks * toy::kCache + toy::kLogits + kScalarBytes);
  // Prefill: a block's input and output, its locals.
  EXPECT_EQ(TransientOf(memory), 2 * toy::kBoundary + toy::kForwardLocal);
  EXPECT_EQ(memory.peak_program, "prefill");
}

TEST(StreamedTest, DumpsAreStable) {
  const struct {
    const char* name;
    ProgramSet set;
  } cases[] = {{"zero3", Build(Zero3())},
               {"ssd_spooled", Build(OnSsd(UpdatePolicy::kSpooled))},
               {"ssd_speculative", Build(OnSsd(UpdatePolicy::kSpeculative))},
               {"streaming_forward", Build(OnHost(4, 2, false))},
               {"streaming_train", Build(OnHost(4, 2, true))}};
  for (const auto& [name, set] : cases) {
    EXPECT_EQ(CompareWithGolden(std::string("program/builder/goldens/") + name + ".txt",
                                Dump(set, set.programs[0])),
              "");
  }
  const auto decode = BuildDecode(ToyGraph({}), Tier::kDevice);
  EXPECT_EQ(CompareWithGolden("program/builder/goldens/decode.txt",
                              Dump(decode->set, *decode->set.find("decode"))),
            "");
}

TEST(StreamedTest, RemovedDependencyOfAFetchIsARace) {
  for (const bool train : {false, true}) {
    ProgramSet set = Build(OnHost(2, 1, train));
    Program& program = set.programs[0];
    Instruction& fetch = program.instructions[IndexOf(program, "fetch block 2 micro 0")];
    ASSERT_FALSE(fetch.dependencies.empty());
    fetch.dependencies.clear();
    const std::string message(Verify({&set}, program.name, MeshOf(set)).message());
    EXPECT_THAT(message, HasSubstr("race"));
    EXPECT_THAT(message, HasSubstr("fetch block 2 micro 0"));
    EXPECT_THAT(message, HasSubstr("slot 'window"));
  }
}

TEST(StreamedTest, MissingReductionUnderZero3IsRefused) {
  ProgramSet set = Build(Zero3());
  Program& program = set.programs[0];
  Instruction& reduce =
      program.instructions[IndexOf(program, "reduce gradient of block 2 micro 3")];
  reduce.mechanism = Mechanism::kTransfer;  // copies this rank's own partial sum instead
  reduce.operands[0].bytes = reduce.operands[1].bytes;
  reduce.operands[1].partial = reduce.operands[0].partial;
  const std::string message(Verify({&set}, "train", MeshOf(set)).message());
  EXPECT_THAT(message, HasSubstr("add gradient of block 2"));
  EXPECT_THAT(message, HasSubstr("must be complete but is a partial sum over data"));
}

TEST(StreamedTest, SpeculativeStateOnOneCopyIsRefused) {
  ProgramSet set = Build(OnSsd(UpdatePolicy::kSpeculative));
  for (Placement& placement : set.placements) placement.copies = 1;
  const std::string message(Verify({&set}, "train", MeshOf(set)).message());
  EXPECT_THAT(message, HasSubstr("it holds version 1, not 0"));
}

TEST(StreamedTest, SlabUsedTwiceAtOnceIsRefused) {
  ProgramSet set = Build(OnSsd(UpdatePolicy::kSpooled));
  Program& program = set.programs[0];
  int slabs[2] = {-1, -1};
  for (size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].name == "slab 0") slabs[0] = static_cast<int>(s);
    if (program.slots[s].name == "slab 1") slabs[1] = static_cast<int>(s);
  }
  program.placements[slabs[1]].offset = program.placements[slabs[0]].offset;
  const std::string message(Verify({&set}, "train", MeshOf(set)).message());
  EXPECT_THAT(message, HasSubstr("slab"));
  EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("race"), HasSubstr("overwritten")));
}

}  // namespace
}  // namespace strata::program
