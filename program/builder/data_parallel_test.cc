#include "program/builder/data_parallel.h"

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

DataParallelPrograms Build(int data, int shards, bool zero1, int64_t batch = 8, bool tied = false) {
  DataParallelOptions options{.data = data,
                              .virtual_shards = shards,
                              .global_batch = batch,
                              .evaluate_batch = 5,
                              .shard_optimizer = zero1,
                              .gradient_clip = 1,
                              .scratch = ToyScratch};
  auto built = BuildDataParallel(ToyGraph({.tied = tied}), ToyUpdate, options);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

Mesh DataMesh(int data) { return {.sizes = {.data = data}}; }

int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

TEST(DataParallelTest, EveryLayoutIsVerified) {
  for (const int data : {1, 2, 4}) {
    for (const int shards : {4, 8}) {
      for (const bool zero1 : {false, true}) {
        for (const bool tied : {false, true}) {
          const DataParallelPrograms built = Build(data, shards, zero1, 16, tied);
          for (const char* program : {"train", "evaluate"}) {
            EXPECT_TRUE(Verify({&built.set}, program, DataMesh(data)).ok())
                << Verify({&built.set}, program, DataMesh(data)) << " data " << data << " shards "
                << shards;
          }
        }
      }
    }
  }
}

TEST(DataParallelTest, DumpIsStable) {
  const DataParallelPrograms built = Build(2, 4, true);
  std::string text;
  for (const Program& program : built.set.programs) text += Dump(built.set, program);
  EXPECT_EQ(CompareWithGolden("program/builder/goldens/data_parallel.txt", text), "");
}

TEST(DataParallelTest, RefusesWhatDoesNotDivide) {
  DataParallelOptions options{
      .data = 2, .virtual_shards = 3, .global_batch = 6, .scratch = ToyScratch};
  EXPECT_THAT(BuildDataParallel(ToyGraph({}), ToyUpdate, options).status().message(),
              HasSubstr("virtual_shards 3"));
  options.virtual_shards = 4;
  EXPECT_THAT(BuildDataParallel(ToyGraph({}), ToyUpdate, options).status().message(),
              HasSubstr("global batch 6"));
}

TEST(DataParallelTest, PeakMemoryIsWhatOneWorksOutByHand) {
  // One rank, one micro-batch. State: scalars; parameters and two moments of table, 2 blocks, norm,
  // head.
  const int64_t parameters = 2 * toy::kTableSet + 2 * toy::kBlockSet + toy::kNormSet;
  const int64_t state = kScalarBytes + 3 * parameters;
  // Largest at the end of the step's backward: all gradients are alive until the update; with them
  // the batch (tokens and targets of 16 tokens), the leaves (6 columns), and, in the backward of
  // block 0, what that reads and its locals:
  const int64_t alive = parameters - toy::kTableSet + 16 * 4 /* tokens */ + 6 * 8 /* leaves */ +
                        toy::kBoundary /* input of block 0 */ + toy::kSaved + toy::kBackwardLocal +
                        toy::kBoundary /* gradient stream */;
  const DataParallelPrograms built = Build(1, 1, false, 1);
  const TierMemory memory = ReadMemory(built.set).tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(memory.persistent_bytes, state);
  EXPECT_EQ(memory.peak_bytes, state + alive);
  EXPECT_EQ(memory.peak_program, "train");
  EXPECT_EQ(built.set.programs[0].instructions[memory.peak_instruction].label,
            "backward block 0 micro 0");
  // The arena is the peak, rounded to pages twice (state, then transient), plus at most what
  // 64-byte alignment costs.
  EXPECT_GE(memory.arena_bytes, memory.peak_bytes);
  EXPECT_LE(memory.arena_bytes, memory.peak_bytes + 3 * 4096);
}

TEST(DataParallelTest, PartialGradientsNeedOneBufferPerLevelOfTheTree) {
  for (const auto& [data, shards, buffers] :
       {std::tuple{1, 1, 1}, {1, 2, 2}, {1, 4, 3}, {2, 4, 2}, {1, 8, 4}, {1, 6, 3}}) {
    const DataParallelPrograms built = Build(data, shards, false, 24);
    int found = 0;
    for (const Slot& slot : built.set.find("train")->slots) {
      found +=
          slot.klass == SlotClass::kGradients && slot.name.find("block 0") != std::string::npos;
    }
    EXPECT_EQ(found, buffers) << data << " " << shards;
  }
}

TEST(DataParallelTest, ReductionsHideUnderTheRestOfBackward) {
  const DataParallelPrograms built = Build(4, 4, true, 16);
  // Links so fast that all but the first layer's reduction fits under the backward that follows it.
  const RateCostModel costs({.flops_per_second = 1e9,
                             .memory_bytes_per_second = 1e9,
                             .link_bytes_per_second = 1e9,
                             .link_latency_seconds = 0});
  const auto timeline = PredictTimeline({&built.set}, "train", DataMesh(4), costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const double reduce = timeline->ranks[0].purpose_seconds[static_cast<int>(Purpose::kReduce)];
  const double gather = timeline->ranks[0].purpose_seconds[static_cast<int>(Purpose::kGather)];
  EXPECT_GT(reduce, 0);
  EXPECT_GT(gather, 0);
  EXPECT_LT(timeline->ranks[0].exposed_seconds, (reduce + gather) / 2);
  EXPECT_THAT(timeline->Draw(0, 80), HasSubstr("gradients"));
}

TEST(DataParallelTest, RemovedDependencyIsARace) {
  DataParallelPrograms built = Build(2, 2, true);
  Program& train = built.set.programs[0];
  Instruction& reduce = train.instructions[IndexOf(train, "reduce block 1")];
  ASSERT_FALSE(reduce.dependencies.empty());
  reduce.dependencies.clear();
  const absl::Status status = Verify({&built.set}, "train", DataMesh(2));
  EXPECT_THAT(std::string(status.message()), HasSubstr("race"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("reduce block 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gradient of block 1"));
}

TEST(DataParallelTest, RemovedDependencyAcrossTheStepBoundaryIsARace) {
  DataParallelPrograms built = Build(2, 2, true);
  Program& train = built.set.programs[0];
  int removed = 0;
  for (Instruction& instruction : train.instructions) {
    removed += std::erase_if(instruction.dependencies,
                             [](const Dependency& d) { return d.steps_back == 1; });
  }
  ASSERT_GT(removed, 0);
  const absl::Status status = Verify({&built.set}, "train", DataMesh(2));
  EXPECT_THAT(std::string(status.message()), HasSubstr("race"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("of step 1"));
}

TEST(DataParallelTest, MissingReductionIsRefused) {
  DataParallelPrograms built = Build(2, 2, false);
  Program& train = built.set.programs[0];
  Instruction& reduce = train.instructions[IndexOf(train, "reduce block 0")];
  reduce.mechanism = Mechanism::kSignal;
  reduce.operands.clear();
  const absl::Status status = Verify({&built.set}, "train", DataMesh(2));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("must be complete but is a partial sum over data"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("norm block 0"));
}

TEST(DataParallelTest, OverlappingBytesAreRefused) {
  DataParallelPrograms built = Build(1, 1, false, 1);
  Program& train = built.set.programs[0];
  int first = -1, second = -1;
  for (size_t s = 0; s < train.slots.size(); ++s) {
    if (train.slots[s].name.find("of block 0 micro 0") != std::string::npos &&
        train.slots[s].klass == SlotClass::kActivations)
      first = static_cast<int>(s);
    if (train.slots[s].name == "activation after block 0 micro 0") second = static_cast<int>(s);
  }
  ASSERT_GE(first, 0);
  ASSERT_GE(second, 0);
  train.placements[second].offset = train.placements[first].offset;
  const absl::Status status = Verify({&built.set}, "train", DataMesh(1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("overwritten"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("activation after block 0 micro 0"));
}

TEST(DataParallelTest, CollectivesInAnotherOrderOnOneRankAreRefused) {
  // Two stages of one pipeline stand for two ranks with different programs in one group.
  DataParallelPrograms one = Build(2, 2, false), other = Build(2, 2, false);
  Program& train = other.set.programs[0];
  std::swap(train.instructions[IndexOf(train, "reduce block 0")].communication,
            train.instructions[IndexOf(train, "reduce norm")].communication);
  for (DataParallelPrograms* programs : {&one, &other}) {
    for (Instruction& instruction : programs->set.programs[0].instructions) {
      if (instruction.communication.group == Group::kData)
        instruction.communication.group = Group::kPipeline;
    }
  }
  const Mesh mesh{.sizes = {.pipeline = 2}};
  const absl::Status status = VerifyGroups({&one.set, &other.set}, "train", mesh);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ranks {0, 1}"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 at"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 at"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("but rank "));
  EXPECT_NE(GroupDigests(one.set), GroupDigests(other.set));
}

TEST(DataParallelTest, DigestsDependOnPlanAndBuildOnly) {
  EXPECT_EQ(PlanDigest(Build(2, 2, true).set, "b"), PlanDigest(Build(2, 2, true).set, "b"));
  EXPECT_NE(PlanDigest(Build(2, 2, true).set, "b"), PlanDigest(Build(2, 2, true).set, "c"));
  EXPECT_NE(PlanDigest(Build(2, 2, true).set, "b"), PlanDigest(Build(2, 2, false).set, "b"));
}

TEST(DecodeTest, ProgramsAreVerified) {
  const auto built = BuildDecode(ToyGraph({}), Tier::kHost);
  ASSERT_TRUE(built.ok()) << built.status();
  for (const char* program : {"prefill", "decode"}) {
    EXPECT_TRUE(Verify({&built->set}, program, Mesh{}).ok())
        << Verify({&built->set}, program, Mesh{});
  }
}

}  // namespace
}  // namespace strata::program
