#include "program/readers/timeline.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace strata::program {
namespace {

// Seconds: a call's FLOPs, a transfer's or message's bytes; a collective's bytes per member.
class PlainCosts final : public CostModel {
 public:
  double OpSeconds(const Op& op) const override { return op.flops; }
  double CollectiveSeconds(const Communication& communication, GroupSpan group) const override {
    return static_cast<double>(communication.bytes) * group.ranks;
  }
  double MessageSeconds(const Communication& communication, GroupSpan) const override {
    return static_cast<double>(communication.bytes);
  }
  double TransferSeconds(Tier from, Tier to, int64_t bytes) const override {
    return from == Tier::kHost && to == Tier::kDevice ? static_cast<double>(bytes) : -1;
  }
};

int AddTemplate(ProgramSet& set, double flops) {
  set.templates.push_back({.ops = {{.flops = flops}}});
  return static_cast<int>(set.templates.size()) - 1;
}

// Two seconds of forward; then, beside it, a transfer of three; one second of update. `waits`: the
// next forward needs what the transfer brings.
ProgramSet ThreeInstructions(bool waits) {
  ProgramSet set;
  Instruction forward{.purpose = Purpose::kForward, .label = "forward"};
  forward.template_index = AddTemplate(set, 2);
  if (waits) forward.dependencies = {{1, 1}};
  Instruction fetch{
      .mechanism = Mechanism::kTransfer, .purpose = Purpose::kGather, .stream = Stream::kFetch};
  fetch.operands = {{.slot = 0, .bytes = 3}, {.slot = 1, .bytes = 3, .access = Access::kWrite}};
  fetch.dependencies = {{0, 0}};
  Instruction update{.purpose = Purpose::kUpdate, .label = "update"};
  update.template_index = AddTemplate(set, 1);
  Program program{.name = "train", .instructions = {forward, fetch, update}};
  program.slots = {{.name = "from", .tier = Tier::kHost, .bytes = 3},
                   {.name = "to", .tier = Tier::kDevice, .bytes = 3}};
  set.programs.push_back(program);
  return set;
}

Timeline Predict(const ProgramSet& set, const Mesh& mesh = {}) {
  auto timeline = PredictTimeline({&set}, "train", mesh, PlainCosts());
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

double Of(const RankTimeline& rank, Purpose purpose) {
  const int p = static_cast<int>(purpose);
  return rank.compute[p] + rank.background[p];
}

TEST(TimelineTest, WaitForTheTransferIsExposed) {
  // Forward [0, 2), transfer [2, 5), update [2, 3); the next forward begins at 5.
  const ProgramSet set = ThreeInstructions(true);
  const Timeline timeline = Predict(set);
  EXPECT_DOUBLE_EQ(timeline.step_seconds, 5);
  const RankTimeline& rank = timeline.ranks[0];
  EXPECT_DOUBLE_EQ(rank.compute_seconds, 3);
  EXPECT_DOUBLE_EQ(rank.exposed_seconds, 2);
  EXPECT_DOUBLE_EQ(Of(rank, Purpose::kForward), 2);
  EXPECT_DOUBLE_EQ(Of(rank, Purpose::kGather), 3);
  EXPECT_DOUBLE_EQ(Of(rank, Purpose::kUpdate), 1);
  const absl::Span<const Span> spans = timeline.walked.ranks[0].spans;
  EXPECT_DOUBLE_EQ(spans[1].begin, 2);
  EXPECT_DOUBLE_EQ(spans[1].end, 5);
  EXPECT_DOUBLE_EQ(spans[3].begin, 5);
  EXPECT_DOUBLE_EQ(spans[5].end, 8);
}

// A host whose ops take three times as long.
class SlowHostCosts final : public CostModel {
 public:
  double OpSeconds(const Op& op) const override { return op.flops; }
  double HostOpSeconds(const Op& op) const override { return 3 * op.flops; }
  double CollectiveSeconds(const Communication&, GroupSpan) const override { return 0; }
  double MessageSeconds(const Communication&, GroupSpan) const override { return 0; }
  double TransferSeconds(Tier, Tier, int64_t) const override { return 0; }
};

TEST(TimelineTest, OpWhoseOperandsLiveOnTheHost_TakesTheHostsTime) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    ProgramSet set;
    Instruction update{.purpose = Purpose::kUpdate};
    set.templates.push_back({.formals = {{.name = "state", .bytes = 8}},
                             .ops = {{.operands = {{.slot = 0, .bytes = 8}}, .flops = 2}}});
    update.operands = {{.slot = 0, .bytes = 8}};
    update.template_index = 0;
    set.slots = {{.name = "state", .tier = tier, .bytes = 8}};
    set.programs.push_back({.name = "train", .instructions = {update}});
    const auto timeline = PredictTimeline({&set}, "train", {}, SlowHostCosts());
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_DOUBLE_EQ(timeline->step_seconds, tier == Tier::kHost ? 6 : 2);
  }
}

TEST(TimelineTest, TransferThatNothingWaitsForIsHidden) {
  const ProgramSet set = ThreeInstructions(false);
  const RankTimeline rank = Predict(set).ranks[0];
  EXPECT_DOUBLE_EQ(rank.step_seconds, 3);
  EXPECT_DOUBLE_EQ(rank.exposed_seconds, 0);
}

TEST(TimelineTest, DrawingShowsOneStepOfEachUsedStream) {
  const ProgramSet set = ThreeInstructions(true);
  EXPECT_EQ(Predict(set).Draw(0, 10),
            "rank 0, one step of 5 s\n"
            "compute    |....ffffuu|\n"
            "fetch      |gggg....gg|\n");
}

TEST(TimelineTest, StepIsThatOfTheSlowestRankAndCollectivesKnowTheirGroup) {
  ProgramSet set = ThreeInstructions(false);
  set.groups.data = 2;
  Instruction reduce{
      .mechanism = Mechanism::kCollective, .purpose = Purpose::kReduce, .label = "reduce"};
  reduce.communication = {.op = CollectiveOp::kAllReduce, .group = Group::kData, .bytes = 4};
  set.programs[0].instructions.push_back(reduce);
  const Timeline timeline = Predict(set, {.sizes = {.data = 2}});
  ASSERT_EQ(timeline.ranks.size(), 2u);
  for (const RankTimeline& rank : timeline.ranks) {
    EXPECT_DOUBLE_EQ(Of(rank, Purpose::kReduce), 8);
    EXPECT_DOUBLE_EQ(rank.step_seconds, 11);
  }
  EXPECT_DOUBLE_EQ(timeline.step_seconds, 11);
}

// Two seconds of forward, then one of update; a reduction of `bytes` begins with the step, and
// nothing waits for it.
ProgramSet ReductionBeside(int64_t bytes) {
  ProgramSet set;
  set.groups.data = 2;
  Instruction forward{.purpose = Purpose::kForward, .label = "forward"};
  forward.template_index = AddTemplate(set, 2);
  Instruction reduce{.mechanism = Mechanism::kCollective,
                     .purpose = Purpose::kReduce,
                     .label = "reduce",
                     .stream = Stream::kGradients};
  reduce.communication = {.op = CollectiveOp::kAllReduce, .group = Group::kData, .bytes = bytes};
  reduce.dependencies = {{2, 1}};
  Instruction update{.purpose = Purpose::kUpdate, .label = "update"};
  update.template_index = AddTemplate(set, 1);
  set.programs.push_back({.name = "train", .instructions = {forward, reduce, update}});
  return set;
}

class SharedProcessors final : public CostModel {
 public:
  explicit SharedProcessors(const Interference& beside) : beside_(beside) {}
  double OpSeconds(const Op& op) const override { return op.flops; }
  double CollectiveSeconds(const Communication& communication, GroupSpan) const override {
    return static_cast<double>(communication.bytes);
  }
  double MessageSeconds(const Communication&, GroupSpan) const override { return 0; }
  double TransferSeconds(Tier, Tier, int64_t bytes) const override {
    return static_cast<double>(bytes);
  }
  Interference Beside(const Communication&) const override { return beside_; }
  double BothWays(Tier, Tier) const override { return beside_.stretch; }

 private:
  const Interference beside_;
};

RankTimeline PredictShared(const ProgramSet& set, const Interference& beside) {
  auto timeline =
      PredictTimeline({&set}, "train", {.sizes = {.data = 2}}, SharedProcessors(beside));
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline->ranks[0];
}

// Bytes come from a tier and go to it at once, then a second of update. Seconds of a step.
class BothWaysTest : public testing::Test {
 protected:
  static double Step(Tier far, Stream in, Stream out, int64_t read, int64_t written,
                     double stretch);
};

double BothWaysTest::Step(Tier far, Stream in, Stream out, int64_t read, int64_t written,
                          double stretch) {
  ProgramSet set;
  set.slots = {{.name = "read from", .tier = far, .bytes = 100},
               {.name = "read to", .bytes = 100},
               {.name = "written from", .bytes = 100},
               {.name = "written to", .tier = far, .bytes = 100}};
  const auto transfer = [](int from, int64_t bytes, Stream stream) {
    Instruction made{.mechanism = Mechanism::kTransfer,
                     .purpose = from == 0 ? Purpose::kFetch : Purpose::kStash,
                     .label = "transfer",
                     .stream = stream};
    made.operands = {{.slot = from, .bytes = bytes},
                     {.slot = from + 1, .bytes = bytes, .access = Access::kWrite}};
    made.dependencies = {{2, 1}};
    return made;
  };
  Instruction update{.purpose = Purpose::kUpdate, .label = "update"};
  update.template_index = AddTemplate(set, 1);
  update.dependencies = {{0, 0}, {1, 0}};
  set.programs.push_back(
      {.name = "train",
       .instructions = {transfer(0, read, in), transfer(2, written, out), update}});
  auto timeline = PredictTimeline({&set}, "train", {}, SharedProcessors({.stretch = stretch}));
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline->step_seconds;
}

TEST_F(BothWaysTest, ReadsAndWritesOfOneDiskAreStretchedWhereTheyMeet) {
  const auto step = [](int64_t read, int64_t written, double stretch) {
    return Step(Tier::kSsd, Stream::kSsdRead, Stream::kSsdWrite, read, written, stretch);
  };
  EXPECT_NEAR(step(4, 4, 1), 5, 1e-9);
  EXPECT_NEAR(step(4, 4, 2), 9, 0.1);
  EXPECT_NEAR(step(4, 1, 2), 6, 0.1);  // two seconds of both, then the three that are left
}

TEST_F(BothWaysTest, SoAreCopiesToADeviceAndFromIt) {
  const auto step = [](Stream in, Stream out, double stretch) {
    return Step(Tier::kHost, in, out, 4, 4, stretch);
  };
  EXPECT_NEAR(step(Stream::kFetch, Stream::kEvict, 1), 5, 1e-9);
  EXPECT_NEAR(step(Stream::kFetch, Stream::kEvict, 2), 9, 0.1);
  EXPECT_NEAR(step(Stream::kUpdateFetch, Stream::kEvict, 2), 9, 0.1);
}

TEST(TimelineTest, ComputeBesideCommunicationLosesItsShare) {
  // The reductions of all steps follow each other without a pause: what is half lost takes twice as
  // long.
  const RankTimeline lost = PredictShared(ReductionBeside(20), {.compute_lost = 0.5});
  EXPECT_NEAR(lost.compute_seconds, 6, 0.1);
  // One of forward's seconds is shared: it takes half a second more.
  const RankTimeline some = PredictShared(ReductionBeside(1), {.compute_lost = 0.5});
  EXPECT_NEAR(some.compute_seconds, 3.5, 0.02);
  EXPECT_NEAR(some.step_seconds, 3.5, 0.02);
  EXPECT_DOUBLE_EQ(PredictShared(ReductionBeside(20), {}).compute_seconds, 3);
}

TEST(TimelineTest, CommunicationBesideComputeIsStretched_AndOnlyWhereItIs) {
  const RankTimeline beside = PredictShared(ReductionBeside(1), {.compute_lost = 0, .stretch = 2});
  EXPECT_NEAR(Of(beside, Purpose::kReduce), 2, 0.02);
  ProgramSet waits = ReductionBeside(1);
  waits.programs[0].instructions[1].dependencies = {{0, 0}};
  waits.programs[0].instructions[2].dependencies = {{1, 0}};
  const RankTimeline alone = PredictShared(waits, {.compute_lost = 0.5, .stretch = 2});
  EXPECT_NEAR(Of(alone, Purpose::kReduce), 1, 1e-9);
  EXPECT_NEAR(alone.step_seconds, 4, 1e-9);
  EXPECT_NEAR(alone.exposed[static_cast<int>(Purpose::kReduce)], 1, 1e-9);
}

TEST(TimelineTest, TimelineCanBeMoved) {
  const ProgramSet set = ThreeInstructions(true);
  Timeline first = Predict(set);
  const std::string drawn = first.Draw(0, 20);
  const Timeline second = std::move(first);
  EXPECT_EQ(second.Draw(0, 20), drawn);
}

TEST(TimelineTest, NoStagesIsAnError) {
  EXPECT_FALSE(PredictTimeline({}, "train", Mesh{}, PlainCosts()).ok());
}

TEST(RateCostModelTest, SecondsFollowTheRates) {
  const RateCostModel costs({.flops_per_second = 100,
                             .memory_bytes_per_second = 10,
                             .link_bytes_per_second = 20,
                             .link_latency_seconds = 0.5,
                             .transfer_bytes_per_second = 4});
  Op op{.operands = {{.bytes = 30}, {.bytes = 10, .access = Access::kAccumulate}}, .flops = 400};
  EXPECT_DOUBLE_EQ(costs.OpSeconds(op), 5);  // memory: 30 + 2 · 10 bytes
  op.flops = 1000;
  EXPECT_DOUBLE_EQ(costs.OpSeconds(op), 10);
  const auto collective = [&](CollectiveOp kind, int ranks) {
    return costs.CollectiveSeconds({.op = kind, .bytes = 40}, {.ranks = ranks});
  };
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kAllGather, 4), 0.5 + 3 * 2);
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kReduceScatter, 4), 0.5 + 3 * 2);
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kAllReduce, 4), 2 * 0.5 + 2 * 0.75 * 2);
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kBroadcast, 4), 2 * (0.5 + 2));
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kBarrier, 4), 2 * 0.5);
  EXPECT_DOUBLE_EQ(collective(CollectiveOp::kAllReduce, 1), 0);
  EXPECT_DOUBLE_EQ(costs.MessageSeconds({.bytes = 40}, {}), 2.5);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kSsd, Tier::kHost, 40), 10);
}

TEST(RateCostModelTest, TrafficIsWhatAnOpTouches_NotItsWorkspaceNorTheWholeTable) {
  const RateCostModel costs({.flops_per_second = 1e30, .memory_bytes_per_second = 1});
  const Op product{.kind = OpKind::kMatMul,
                   .operands = {{.bytes = 24},
                                {.bytes = 48},
                                {.bytes = 32, .access = Access::kAccumulate},
                                {.bytes = 1 << 22, .access = Access::kWrite}},
                   .ints = {2, 4, 3, 0, 0, 1, 0, 0, 0}};
  EXPECT_DOUBLE_EQ(costs.OpSeconds(product), 24 + 48 + 2 * 32);
  const Op embedding{.kind = OpKind::kEmbeddingForward,
                     .operands = {{.bytes = 8}, {.bytes = 4000}, {.bytes = 32}},
                     .ints = {2, 250, 4, 0}};
  EXPECT_DOUBLE_EQ(costs.OpSeconds(embedding), 8 + 32 + 32);
}

}  // namespace
}  // namespace strata::program
