#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/readers/memory.h"
#include "program/readers/timeline.h"
#include "program/readers/verify.h"
#include "program/readers/verify_in_flight.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;

constexpr int kStages = 4, kBlocks = 8, kMicroBatches = 8;
constexpr int64_t kColumns = kBlocks + 2;  // of norms: table (tied), blocks, norm

// The toy graph with the gradient of the head's norm a partial sum over the tensor group, as where
// each rank has its own rows.
LayerGraph Graph(bool tied) {
  LayerGraph graph = ToyGraph({.blocks = kBlocks, .tied = tied});
  const LayerTemplates& head = graph.layers.back().templates;
  for (const int index : {head.backward, head.backward_input}) {
    Template& tmpl = graph.templates[index];
    for (Op& op : tmpl.ops) {
      for (Operand& operand : op.operands) {
        if (operand.slot >= static_cast<int>(tmpl.formals.size())) continue;
        const Formal& formal = tmpl.formals[operand.slot];
        if (formal.role == Role::kGradients && formal.index == 0) {
          operand.partial = PartialOver(Group::kTensor);
        }
      }
    }
  }
  return graph;
}

Plan Options(ScheduleKind kind, int tensor = 2) {
  Plan plan;
  plan.groups.tensor = tensor;
  plan.groups.pipeline = kStages;
  plan.schedule = kind;
  const bool whole = kind == ScheduleKind::kGpipe || kind == ScheduleKind::k1F1B;
  plan.virtual_stages = whole ? 1 : 2;
  plan.global_batch = kMicroBatches;
  plan.gradient_clip = 1;
  plan.scratch = ToyScratch;
  return plan;
}

std::vector<ProgramSet> SetsOf(absl::StatusOr<std::vector<StagePrograms>> built) {
  EXPECT_TRUE(built.ok()) << built.status();
  std::vector<ProgramSet> sets;
  if (!built.ok()) return sets;
  for (StagePrograms& stage : *built) sets.push_back(std::move(stage.set));
  return sets;
}

std::vector<ProgramSet> Build(const Plan& plan, bool tied = true) {
  return SetsOf(Compose(Graph(tied), plan, ToyUpdate));
}

std::vector<const ProgramSet*> Pointers(const std::vector<ProgramSet>& sets) {
  std::vector<const ProgramSet*> pointers;
  for (const ProgramSet& set : sets) pointers.push_back(&set);
  return pointers;
}

Mesh MeshOf(const std::vector<ProgramSet>& sets) { return {.sizes = sets.front().groups}; }

absl::Status VerifyAll(const std::vector<ProgramSet>& sets) {
  return Verify(Pointers(sets), "train", MeshOf(sets));
}

int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

Program& Train(std::vector<ProgramSet>& sets, int stage) { return sets[stage].programs[0]; }

TEST(PipelineTest, EverySchedule_IsVerifiedOnEveryStage) {
  for (const ScheduleKind kind :
       {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
        ScheduleKind::kZeroBubble, ScheduleKind::kZbv}) {
    for (const bool tied : {false, true}) {
      for (const int tensor : {1, 2, 4}) {
        const std::vector<ProgramSet> built = Build(Options(kind, tensor), tied);
        ASSERT_EQ(built.size(), 4u);
        EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
      }
    }
  }
}

TEST(PipelineTest, OtherShapes_AreVerified) {
  for (const auto& [stages, chunks, micro_batches] :
       {std::tuple{2, 1, 3}, {2, 2, 2}, {2, 4, 4}, {3, 3, 6}, {4, 1, 1}, {5, 1, 7}}) {
    Plan options = Options(ScheduleKind::kZeroBubble);
    options.groups.pipeline = stages;
    options.virtual_stages = chunks;
    options.global_batch = micro_batches;
    options.durations = {10, 13, 7};
    if (chunks * stages > kBlocks) options.stage_of_layer = {0, 1, 2, 3, 4, 5, 5, 6, 7, 8};
    const std::vector<ProgramSet> built = Build(options);
    EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built) << " of " << stages << " x " << chunks;
  }
}

TEST(PipelineTest, HeadAlone_OnTheLastVirtualStage) {
  Plan options = Options(ScheduleKind::kZeroBubble);
  options.stage_of_layer = {0, 0, 1, 1, 2, 3, 4, 5, 6, 7};
  for (const bool tied : {false, true}) {
    const std::vector<ProgramSet> built = Build(options, tied);
    EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  }
}

TEST(PipelineTest, LayerFirst_TakesALayerThroughAllMicroBatchesAndIsVerified) {
  for (const bool tied : {false, true}) {
    for (const int tensor : {1, 2}) {
      Plan options = Options(ScheduleKind::kGpipe, tensor);
      options.micro_order = MicroOrder::kLayerFirst;
      const std::vector<ProgramSet> built = Build(options, tied);
      ASSERT_EQ(built.size(), 4u);
      EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
      std::vector<std::string> forwards, backwards, expected[2];
      for (const Instruction& instruction : built[1].programs[0].instructions) {
        if (instruction.purpose == Purpose::kForward) forwards.push_back(instruction.label);
        if (instruction.label.starts_with("backward block")) backwards.push_back(instruction.label);
      }
      for (const int layer : {2, 3}) {
        for (int m = 0; m < kMicroBatches; ++m) {
          const std::string of = " micro " + std::to_string(m);
          expected[0].push_back("forward block " + std::to_string(layer) + of);
          expected[1].push_back("backward block " + std::to_string(5 - layer) + of);
        }
      }
      EXPECT_EQ(forwards, expected[0]);
      EXPECT_EQ(backwards, expected[1]);
    }
  }
}

TEST(PipelineTest, LayerFirstOfAnotherScheduleThanGpipe_IsRefused) {
  Plan options = Options(ScheduleKind::k1F1B);
  options.micro_order = MicroOrder::kLayerFirst;
  EXPECT_THAT(std::string(Compose(Graph(true), options, ToyUpdate).status().message()),
              HasSubstr("GPipe's order"));
}

TEST(PipelineTest, PassesInFlight_AreAsManyAsTheScheduleAllows) {
  for (const ScheduleKind kind :
       {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
        ScheduleKind::kZeroBubble, ScheduleKind::kZbv}) {
    const Plan options = Options(kind, 1);
    const std::vector<ProgramSet> built = Build(options);
    for (int r = 0; r < kStages; ++r) {
      const ScheduleOptions schedule{kind, kStages, options.virtual_stages, kMicroBatches};
      EXPECT_EQ(built[r].programs[0].most_in_flight, InFlightBound(schedule, r));
      EXPECT_EQ(MostInFlight(built[r], built[r].programs[0]), InFlightBound(schedule, r))
          << static_cast<int>(kind) << " stage " << r;
    }
  }
}

TEST(PipelineTest, MorePassesInFlightThanTheScheduleAllows_AreRefused) {
  // Passes as GPipe orders them, of a plan that says 1F1B.
  auto promised = Decide(Graph(false), Options(ScheduleKind::k1F1B, 1));
  auto other = Decide(Graph(false), Options(ScheduleKind::kGpipe, 1));
  ASSERT_TRUE(promised.ok() && other.ok());
  promised->train.events = other->train.events;
  auto built = ComposeStage(*promised, 1, ToyUpdate);
  ASSERT_TRUE(built.ok()) << built.status();
  const Mesh mesh{.sizes = built->set.groups};
  const Program& train = built->set.programs[0];
  EXPECT_THAT(std::string(VerifyStage(built->set, train, mesh, 1).message()),
              HasSubstr("(forward block 2 micro 7): 8 passes in flight, of which activations are "
                        "kept; the schedule allows 3"));
}

// What the call saves for a backward.
int SavedBy(const ProgramSet& set, const Program& program, const std::string& label) {
  const Instruction& call = program.instructions[IndexOf(program, label)];
  const std::vector<Formal>& formals = set.templates[call.template_index].formals;
  for (size_t f = 0; f < formals.size(); ++f) {
    if (formals[f].role == Role::kSaved) return call.operands[f].slot;
  }
  ADD_FAILURE() << label << " saves nothing";
  return 0;
}

TEST(PipelineTest, WhatAPassKeepsBeyondItsBackward_CountsAndIsRefused) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::k1F1B, 1), false);
  Program& train = Train(built, 3);  // which holds one pass at a time
  const int saved = SavedBy(built[3], train, "forward block 6 micro 0");
  train.instructions.push_back({.mechanism = Mechanism::kSignal,
                                .label = "once more",
                                .operands = {{.slot = saved, .bytes = 64}}});
  EXPECT_THAT(
      std::string(VerifyInFlight(built[3], train).message()),
      HasSubstr("2 passes in flight, of which activations are kept; the schedule allows 1"));
}

TEST(PipelineTest, ASavedValueThatCountsForNoPass_IsRefused) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::k1F1B, 1), false);
  Program& train = Train(built, 1);
  const int saved = SavedBy(built[1], train, "forward block 2 micro 1");
  train.slots[saved - static_cast<int>(built[1].slots.size())].pass = -1;
  EXPECT_THAT(std::string(VerifyAll(built).message()),
              HasSubstr("is saved for a backward and counts for no pass"));
}

TEST(PipelineTest, TiedTable_IsOnTheFirstAndTheLastStageAndCountedOnce) {
  const std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble));
  int holders = 0, counted = 0;
  for (const ProgramSet& stage : built) {
    for (const ParameterSet& set : stage.sets) {
      holders += set.name == "table";
      counted += set.name == "table" && set.counted_in_norm;
    }
  }
  EXPECT_EQ(holders, 2);
  EXPECT_EQ(counted, 1);
}

TEST(PipelineTest, StateAndPeakOf1F1B_AreWhatOneWorksOutByHand) {
  // Stage 0: table, blocks 0 and 1, each with two moments.
  const int64_t parameters = toy::kTableSet + 2 * toy::kBlockSet;
  const int64_t state = kScalarBytes + 3 * parameters;
  // Largest when all gradients have begun and P = 4 micro-batches are in flight, in the backward of
  // block 1, for micro-batch 1: four times what forward keeps of both blocks (inputs and saved);
  // the gradient that came back; locals; one buffer from which activations still leave (the second
  // one was needed only where forwards follow each other, before); tokens of 8 x 16, the loss, and
  // the norms of all sets.
  const int64_t alive = parameters + 4 * 2 * (toy::kBoundary + toy::kSaved) + toy::kBoundary +
                        toy::kBackwardLocal + toy::kBoundary + 8 * 16 * 4 + 8 + kColumns * 8;
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::k1F1B, 1));
  const TierMemory memory = ReadMemory(built[0]).tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(memory.persistent_bytes, state);
  EXPECT_EQ(memory.peak_bytes, state + alive);
  EXPECT_EQ(Train(built, 0).instructions[memory.peak_instruction].label,
            "backward block 1 micro 1");
}

TEST(PipelineTest, StateAndPeakOfZeroBubble_AreWhatOneWorksOutByHand) {
  // Stage 0: table, blocks 0 (chunk 0) and 4 (chunk 1), each with two moments.
  const int64_t parameters = toy::kTableSet + 2 * toy::kBlockSet;
  const int64_t state = kScalarBytes + 3 * parameters;
  // Largest when all gradients have begun and as many passes are in flight as may be, 2(P-1) +
  // (v-1)P + 1 = 11, in the input gradient of block 0 for micro-batch 2: eleven times a block's
  // input and what it saved, less what block 0 saved of micro-batch 1, whose input gradient is made
  // and whose weight gradient (which does not read it) is put off; for both of these micro-batches
  // the gradient that came back, the one made and the stash; locals; two buffers from which
  // messages leave in turn; tokens of 8 x 16, the loss, and the norms of all sets.
  const int64_t alive = parameters + 11 * (toy::kBoundary + toy::kSaved) - toy::kSaved +
                        2 * (2 * toy::kBoundary + toy::kStash) + toy::kBackwardLocal +
                        2 * toy::kBoundary + 8 * 16 * 4 + 8 + kColumns * 8;
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 1));
  const TierMemory memory = ReadMemory(built[0]).tiers[static_cast<int>(Tier::kHost)];
  EXPECT_EQ(memory.persistent_bytes, state);
  EXPECT_EQ(memory.peak_bytes, state + alive);
  EXPECT_EQ(Train(built, 0).instructions[memory.peak_instruction].label,
            "backward-input block 0 micro 2");
}

TEST(PipelineTest, FewerPassesInFlight_NeedLessMemory) {
  Plan options = Options(ScheduleKind::kZeroBubble, 1);
  const std::vector<ProgramSet> free = Build(options);
  options.in_flight = 5;
  const std::vector<ProgramSet> bounded = Build(options);
  EXPECT_TRUE(VerifyAll(bounded).ok()) << VerifyAll(bounded);
  const int host = static_cast<int>(Tier::kHost);
  EXPECT_LE(ReadMemory(bounded[0]).tiers[host].peak_bytes + 5 * toy::kSaved,
            ReadMemory(free[0]).tiers[host].peak_bytes);
}

// Step time in units of a block's forward, where nothing but blocks costs anything: their forward
// 1, gradients of input and weights 1 each.
double StepOf(ScheduleKind kind, double message_seconds = 0) {
  LayerGraph graph = Graph(true);
  const LayerTemplates& head = graph.layers.back().templates;
  for (const int index : {head.backward, head.backward_input}) {
    for (Op& op : graph.templates[index].ops) op.flops = 0;
  }
  auto built = Compose(std::move(graph), Options(kind, 1), ToyUpdate);
  const std::vector<ProgramSet> sets = SetsOf(std::move(built));
  const RateCostModel costs({.flops_per_second = 1e6,
                             .memory_bytes_per_second = 1e12,
                             .link_bytes_per_second = 1e12,
                             .link_latency_seconds = message_seconds});
  const auto timeline = PredictTimeline(Pointers(sets), "train", MeshOf(sets), costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_THAT(timeline->Draw(0, 100), HasSubstr("receive"));
  return timeline->step_seconds;
}

TEST(PipelineTest, Timeline_ShowsTheBubblesOfTheSchedules) {
  // 8 micro-batches x 2 blocks per stage x 3, and the bubbles of schedule.h: 2 · 3 · 3, half of
  // that, and 3 · (1 + 1 - 1) of chunks. Updates take 0.5.
  EXPECT_NEAR(StepOf(ScheduleKind::k1F1B), 48 + 18 + 0.5, 0.1);
  EXPECT_NEAR(StepOf(ScheduleKind::kInterleaved), 48 + 9 + 0.5, 0.1);
  EXPECT_NEAR(StepOf(ScheduleKind::kZeroBubble), 48 + 3 + 0.5, 0.1);
}

TEST(PipelineTest, Messages_HideUnderPasses) {
  // A stage in the middle sends 32 messages and receives 32. Fewer than half of them are seen; were
  // a buffer that a message leaves from used again by the next pass, it would be 55.
  const double seen =
      (StepOf(ScheduleKind::kInterleaved, 0.25) - StepOf(ScheduleKind::kInterleaved, 0)) / 0.25;
  // Beside the messages: losses and norms are summed over the stages, one after the other.
  const double messages = seen - 2 * (kStages - 1);
  EXPECT_GT(messages, 2 * (kStages - 1));
  EXPECT_LT(messages, 32);
}

TEST(PipelineTest, TwoSendsInTheOtherOrder_AreADeadlock) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::k1F1B, 1));
  Program& train = Train(built, 1);
  // Stage 2 sends its first gradient after two forwards, of which stage 1 now sends the second only
  // after having received and passed on that gradient.
  std::swap(train.instructions[IndexOf(train, "send activation chunk 0 micro 1")],
            train.instructions[IndexOf(train, "send gradient chunk 0 micro 0")]);
  const std::string message(VerifyGroups(Pointers(built), "train", MeshOf(built)).message());
  EXPECT_THAT(message, HasSubstr("deadlock"));
  EXPECT_THAT(message, HasSubstr("rank 2 at instruction"));
  EXPECT_THAT(message, HasSubstr("receive activation chunk 0 micro 1"));
  EXPECT_THAT(message, HasSubstr("from rank 1 on channel 0"));
}

TEST(PipelineTest, MessageOfAnotherSize_IsRefused) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 1));
  Program& train = Train(built, 0);
  train.instructions[IndexOf(train, "receive activation chunk 1 micro 2")].communication.bytes -=
      64;
  const std::string message(VerifyAll(built).message());
  EXPECT_THAT(message, HasSubstr("rank 3 at instruction"));
  EXPECT_THAT(message, HasSubstr("send activation chunk 0 micro 2"));
  EXPECT_THAT(message, HasSubstr("rank 0 at instruction"));
  EXPECT_THAT(message, HasSubstr("receive activation chunk 1 micro 2"));
  EXPECT_THAT(message, HasSubstr("4096 bytes on channel 0"));
  EXPECT_THAT(message, HasSubstr("4032"));
}

TEST(PipelineTest, RemovedDependency_IsARace) {
  for (const auto& [label, slot] :
       {std::pair<std::string, std::string>{"send activation chunk 0 micro 0", "send buffer 0"},
        {"backward-input block 1 micro 0", "gradient received for chunk 0 micro 0"}}) {
    std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 1));
    Program& train = Train(built, 1);
    Instruction& broken = train.instructions[IndexOf(train, label)];
    ASSERT_FALSE(broken.dependencies.empty());
    broken.dependencies.clear();
    const std::string message(VerifyAll(built).message());
    EXPECT_THAT(message, HasSubstr("race"));
    EXPECT_THAT(message, HasSubstr(label));
    EXPECT_THAT(message, HasSubstr(slot));
  }
}

void Remove(Program& program, const std::string& label) {
  Instruction& removed = program.instructions[IndexOf(program, label)];
  removed.mechanism = Mechanism::kSignal;
  removed.operands.clear();
}

TEST(PipelineTest, MissingReduction_IsRefused) {
  for (const auto& [stage, label, set, group] :
       {std::tuple<int, std::string, std::string, std::string>{3, "reduce norm over tensor", "norm",
                                                               "tensor"},
        {0, "reduce table over embedding", "table", "pipeline"}}) {
    std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 2));
    Remove(Train(built, stage), label);
    const std::string message(VerifyAll(built).message());
    EXPECT_THAT(message, HasSubstr("must be complete but is a partial sum over " + group));
    EXPECT_THAT(message, HasSubstr("norm " + set));
    EXPECT_THAT(message, HasSubstr("slot 'gradient of " + set + "'"));
  }
}

TEST(PipelineTest, MissingReductionOfNorms_IsRefused) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 2));
  Remove(Train(built, 1), "sum norms over tensor");
  const std::string message(VerifyAll(built).message());
  EXPECT_THAT(
      message,
      HasSubstr(
          "must be a partial sum over pipeline but is a partial sum over pipeline and tensor"));
  EXPECT_THAT(message, HasSubstr("slot 'norms'"));
}

TEST(PipelineTest, CollectivesInAnotherOrderOnOneStage_AreADeadlock) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 1));
  Program& train = Train(built, 3);
  std::swap(train.instructions[IndexOf(train, "reduce table over embedding")].communication,
            train.instructions[IndexOf(train, "sum losses over stages")].communication);
  const std::string message(VerifyGroups(Pointers(built), "train", MeshOf(built)).message());
  EXPECT_THAT(message, HasSubstr("deadlock"));
  EXPECT_THAT(message, HasSubstr("rank 0 at instruction"));
  EXPECT_THAT(message, HasSubstr("reduce table over embedding"));
  EXPECT_THAT(message, HasSubstr("group embedding {0, 3}"));
  EXPECT_THAT(message, HasSubstr("group pipeline {0, 1, 2, 3}"));
}

TEST(PipelineTest, CollectiveOfAnotherSizeOnOneStage_IsRefused) {
  std::vector<ProgramSet> built = Build(Options(ScheduleKind::kZeroBubble, 2));
  Program& train = Train(built, 3);
  train.instructions[IndexOf(train, "reduce table over embedding")].communication.bytes /= 2;
  const std::string message(VerifyAll(built).message());
  EXPECT_THAT(message, HasSubstr("group embedding of ranks {0, 6}"));
  EXPECT_THAT(message, HasSubstr("rank 6 at instruction"));
}

TEST(PipelineTest, WhatDoesNotGoTogether_IsRefused) {
  const auto message = [](LayerGraph graph, const Plan& options) {
    return std::string(Compose(std::move(graph), options, ToyUpdate).status().message());
  };
  Plan options;
  options = Options(ScheduleKind::kInterleaved);
  options.global_batch = 6;
  EXPECT_THAT(message(Graph(true), options), HasSubstr("6 micro-batches are no multiple"));
  options = Options(ScheduleKind::kZeroBubble);
  options.stage_of_layer = {0, 0, 1, 2, 4, 3, 5, 6, 7, 7};
  EXPECT_THAT(message(Graph(true), options), HasSubstr("virtual stage 3"));
  options.stage_of_layer = {0, 1, 2};
  EXPECT_THAT(message(Graph(true), options), HasSubstr("virtual stages of 3 layers, there are 10"));
  options = Options(ScheduleKind::kZeroBubble);
  EXPECT_THAT(message(ToyGraph({.blocks = 3}), options), HasSubstr("5 layers are too few for 8"));
  LayerGraph whole = Graph(true);
  for (Layer& layer : whole.layers) layer.templates.backward_weight = -1;
  EXPECT_THAT(message(whole, options), HasSubstr("backward is split"));
  LayerGraph shared = Graph(false);
  shared.layers[3].sets = shared.layers[2].sets;
  EXPECT_THAT(message(shared, options), HasSubstr("set block 1 is on several stages"));
}

}  // namespace
}  // namespace strata::program
