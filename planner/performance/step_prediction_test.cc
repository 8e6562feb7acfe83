#include "planner/performance/step_prediction.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include "planner/performance/links.h"
#include "planner/performance/memory_estimate.h"
#include "planner/performance/performance_testing.h"

namespace strata::planner {
namespace {

StepPrediction Predict(const Machine& machine, const LayoutChoice& layout) {
  return PredictStep(machine, SmallShape(), layout);
}

TEST(Step, TermsAddUpToTheSeconds) {
  Machine machine = RoundMachine();
  machine.calibration.straggler = 0.01;
  machine.calibration.overhead_seconds = 0.1;
  const StepPrediction step = Predict(machine, SmallLayout());
  EXPECT_DOUBLE_EQ(step.seconds, step.terms.total());
  EXPECT_DOUBLE_EQ(step.terms.overhead, 0.1);
  // 64 devices are 8 nodes.
  EXPECT_NEAR(step.terms.straggler, (step.seconds - step.terms.straggler) * 0.01 * 3, 1e-9);
}

TEST(Step, SameInputsGiveTheSameBits) {
  EXPECT_EQ(Predict(RoundMachine(), SmallLayout()).seconds,
            Predict(RoundMachine(), SmallLayout()).seconds);
}

TEST(Step, ProductsAreSixFlopsPerParameterAndToken) {
  Machine machine = RoundMachine();
  machine.gpu.memory_rate = 1e16;
  machine.gpu.tile_seconds = machine.gpu.kernel_seconds = 0;
  LayoutChoice layout;
  layout.global_batch = 1;
  const StepPrediction step = Predict(machine, layout);
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336;
  const double flops = 6 * 8192.0 * (32 * layer + 4096.0 * 128256);
  EXPECT_NEAR(step.terms.products, flops / 100e12, 0.03 * flops / 100e12);
}

TEST(Step, BubbleIsTheOtherStagesOverTheChunks) {
  TrainingShape shape = SmallShape();
  shape.vocab = 8;  // stages alike
  LayoutChoice layout = SmallLayout();
  layout.pipeline = 4;
  layout.data = 1;
  layout.global_batch = 16;
  const auto bubble = [&](int64_t chunks) {
    layout.chunks = chunks;
    const StepTerms terms = PredictStep(RoundMachine(), shape, layout).terms;
    return terms.bubble / (terms.products + terms.attention + terms.memory_bound + terms.tensor);
  };
  EXPECT_NEAR(bubble(1), 3.0 / 16, 1e-3);
  EXPECT_NEAR(bubble(4), 3.0 / 64, 1e-3);
}

TEST(Step, LinksThatAreSlowerThanTheComputationBoundAnInterleavedPipeline) {
  Machine machine = RoundMachine();
  machine.software.pipeline_overlap = true;
  LayoutChoice layout;
  layout.pipeline = 4;
  layout.global_batch = 64;
  layout.chunks = 8;
  const auto messages = [&] {
    return PredictStep(machine, SmallShape(), layout).terms.pipeline_messages;
  };
  machine.network.domain_devices = 1;
  const double hidden = messages();
  machine.network.network_rate /= 1000;  // now a message takes 1,000 times as long
  const StepPrediction step = PredictStep(machine, SmallShape(), layout);
  const double message = 2 * 8192.0 * 4096 / 10e6;
  const double busy = step.terms.products + step.terms.attention + step.terms.memory_bound;
  EXPECT_NEAR(step.terms.pipeline_messages, 6 * message + 64 * 16 * message - busy, 0.01 * busy);
  EXPECT_LT(hidden, 0.01 * busy);
  layout.chunks = 1;
  EXPECT_LT(messages(), step.terms.pipeline_messages / 6);
}

TEST(Step, WhereNoMorePassesAreInFlightEachWaitsForItsMessages) {
  Machine machine = RoundMachine();
  machine.software.pipeline_overlap = true;
  machine.network.domain_devices = 1;
  LayoutChoice layout;
  layout.pipeline = 4;
  layout.global_batch = 64;
  const auto messages = [&] {
    return PredictStep(machine, SmallShape(), layout).terms.pipeline_messages;
  };
  const double hidden = messages();
  machine.software.pipeline_latency = true;
  // Four in flight, six messages there and back, in place of none of 64 micro-batches.
  EXPECT_NEAR(messages() / hidden, 1 + 64 / 4.0, 1e-6);
  layout.chunks = 8;  // of chunks others are in flight meanwhile
  EXPECT_LT(messages(), 1.01 * hidden);
}

TEST(Step, GradientsOfATiedTableAreSummedBetweenTheEndsOfAPipeline) {
  TrainingShape shape = SmallShape();
  LayoutChoice layout;
  layout.pipeline = 2;
  layout.global_batch = 4;
  layout.sharding = Sharding::kReplicated;
  Machine machine = RoundMachine();
  machine.software.data_overlap = true;
  const auto data = [&](bool tied) {
    shape.tied = tied;
    return PredictStep(machine, shape, layout).terms.data;
  };
  const double table = 4.0 * 4096 * 128256;
  EXPECT_NEAR(data(true) - data(false), table / 100e9, 0.1 * table / 100e9);
  layout.pipeline = 1;
  EXPECT_EQ(data(true), data(false));
}

TEST(Step, LayersSpreadEvenlyOrTheEndsHaveOneFewer) {
  TrainingShape shape = SmallShape();
  LayoutChoice layout;
  layout.pipeline = 8;
  layout.chunks = 8;
  shape.layers = 126;
  EXPECT_EQ(LayersOf(shape, layout).middle, 16);
  EXPECT_EQ(LayersOf(shape, layout).last, 15);
  shape.layers = 128;
  EXPECT_EQ(LayersOf(shape, layout).last, 16);
}

TEST(Step, ParametersOfOneDeviceAreTheModels) {
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336 + 2 * 4096;
  EXPECT_DOUBLE_EQ(ParametersOf(SmallShape(), LayoutChoice()).dense,
                   32 * layer + 2 * 4096.0 * 128256);
}

TEST(Step, ReplicatedGradientsAreReducedWhole) {
  Machine machine = RoundMachine();
  machine.software.gradient_bytes = 2;
  LayoutChoice layout;
  layout.data = 8;
  layout.sharding = Sharding::kReplicated;
  layout.global_batch = 8;
  const double bytes = 2 * ParametersOf(SmallShape(), layout).dense;
  EXPECT_NEAR(Predict(machine, layout).terms.data, 2 * bytes * 7 / 8 / 100e9, 1e-3);
}

TEST(Step, SmallCollectivesOfShardedLayersCostTheirLatencies) {
  Machine machine = RoundMachine();
  LayoutChoice layout;
  layout.data = 8;
  layout.global_batch = 8;
  layout.sharding = Sharding::kZero3;
  const double joined = Predict(machine, layout).terms.data;
  machine.software.collectives_per_layer = 12;
  // 11 more gathers twice and scatters once, of 32 layers, at about 30 us each.
  EXPECT_NEAR(Predict(machine, layout).terms.data - joined, 11 * 3 * 33 * 30e-6, 0.01);
}

TEST(Step, OptimizerReadsAndWritesItsShardOnce) {
  LayoutChoice layout;
  layout.data = 8;
  layout.global_batch = 8;
  const double shard = ParametersOf(SmallShape(), layout).dense / 8;
  EXPECT_NEAR(Predict(RoundMachine(), layout).terms.optimizer, shard * 34 / 1e12, 1e-9);
}

TEST(Step, FullRecomputeRepeatsTheForward) {
  LayoutChoice layout = SmallLayout();
  const LayerCost plain = CostOfLayer(RoundMachine(), SmallShape(), KeyOf(layout));
  layout.recompute = Recompute::kFull;
  const LayerCost again = CostOfLayer(RoundMachine(), SmallShape(), KeyOf(layout));
  EXPECT_NEAR(again.backward.total(), plain.backward.total() + plain.forward.total(), 1e-12);
}

TEST(Step, NarrowProductsSpeedUpOnlyTheProducts) {
  LayoutChoice layout = SmallLayout();
  const StepTerms half = Predict(RoundMachine(), layout).terms;
  layout.precision = Precision::kFp8;
  const StepTerms narrow = Predict(RoundMachine(), layout).terms;
  EXPECT_LT(narrow.products, half.products);
  EXPECT_EQ(narrow.attention, half.attention);
  EXPECT_GT(narrow.memory_bound, half.memory_bound);  // casts
}

TEST(Step, In32BitsEverythingIsAsWideAndAsSlow) {
  const Machine machine = RoundMachine();  // half the rate in 32 bits
  LayoutChoice layout = SmallLayout();
  const StepTerms narrow = Predict(machine, layout).terms;
  const double held = ActivationBytes(Software{}, SmallShape(), layout);
  layout.precision = Precision::kFp32;
  const StepTerms wide = Predict(machine, layout).terms;
  // But for the row sums of attention, which have 32 bits anyway.
  EXPECT_NEAR(ActivationBytes(Software{}, SmallShape(), layout), 2 * held, 0.01 * held);
  EXPECT_NEAR(wide.attention / narrow.attention, 2, 0.05);
  EXPECT_NEAR(wide.products / narrow.products, 2, 0.1);
  EXPECT_NEAR(wide.tensor / narrow.tensor, 2, 0.05);
  EXPECT_NEAR(wide.pipeline_messages / narrow.pipeline_messages, 2, 0.05);
  EXPECT_GT(wide.memory_bound / narrow.memory_bound, 1.7);
  EXPECT_GT(wide.data, 1.2 * narrow.data);  // gathers; gradients are in 32 bits anyway
}

TEST(Step, HostThatLaunchesSlowlyBoundsSmallKernels) {
  Machine machine = RoundMachine();
  TrainingShape shape = SmallShape();
  shape.hidden = 256;
  shape.heads = shape.kv_heads = 2;
  shape.ffn = 512;
  shape.sequence_length = 128;
  machine.software.graphs = false;
  machine.software.launch_seconds = 50e-6;
  LayoutChoice layout;
  const StepTerms terms = PredictStep(machine, shape, layout).terms;
  EXPECT_GT(terms.launch, terms.products + terms.attention + terms.memory_bound);
  machine.software.graphs = true;
  EXPECT_EQ(PredictStep(machine, shape, layout).terms.launch, 0);
}

TEST(Step, ExpertsExchangeTokens) {
  TrainingShape shape = SmallShape();
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert_ffn = 14336;
  LayoutChoice layout = SmallLayout();
  layout.tensor = 1;
  layout.expert = 8;
  const StepTerms terms = PredictStep(RoundMachine(), shape, layout).terms;
  EXPECT_GT(terms.tensor, 0);
  // Two experts per token: the block's products double, the attention's stay.
  EXPECT_GT(terms.products, 1.5 * PredictStep(RoundMachine(), SmallShape(), layout).terms.products);
}

TEST(Step, OffloadedStatesCostWhatTheLinkDoesNotHide) {
  LayoutChoice layout;
  layout.data = 8;
  layout.global_batch = 8;
  EXPECT_EQ(Predict(RoundMachine(), layout).terms.offload, 0);
  layout.offload = Offload::kOptimizer;
  const double host = Predict(RoundMachine(), layout).terms.offload;
  EXPECT_GT(host, 0);
  layout.disk = true;
  EXPECT_GT(Predict(RoundMachine(), layout).terms.offload, host);
  layout.disk = false;
  layout.offload = Offload::kAll;
  EXPECT_GT(Predict(RoundMachine(), layout).terms.offload, host);
}

// By PCIe pages of 12 bytes an element cost more than gradients that leave and weights that come; a
// coherent link is another matter.
TEST(Step, StatesInUnifiedMemoryCostTheirPages) {
  LayoutChoice layout;
  layout.data = 8;
  layout.global_batch = 8;
  layout.offload = Offload::kOptimizer;
  const StepPrediction host = Predict(RoundMachine(), layout);
  layout.unified = true;
  Machine machine = RoundMachine();
  const StepPrediction pages = Predict(machine, layout);
  EXPECT_GT(pages.terms.offload, host.terms.offload);
  machine.network.page_rate *= 20;
  const StepPrediction coherent = Predict(machine, layout);
  EXPECT_DOUBLE_EQ(coherent.terms.offload, pages.terms.offload / 20);
  EXPECT_LT(coherent.terms.offload, host.terms.offload);
}

// The host's processors read gradients, master and moments and write the last three and weights,
// while the next forward goes on.
TEST(Step, UpdatesOnAHostOfAKnownRateAreWaitedForAsFarAsTheNextForwardDoesNotHideThem) {
  LayoutChoice layout{.data = 8, .global_batch = 8, .offload = Offload::kOptimizer};
  Machine machine = RoundMachine();
  const double transfers = Predict(machine, layout).terms.offload;
  const double elements = ParametersOf(SmallShape(), layout).dense / 8;
  machine.network.host_memory_rate = 1e9;
  const double slow = Predict(machine, layout).terms.offload;
  machine.network.host_memory_rate = 2e9;
  EXPECT_NEAR(slow - Predict(machine, layout).terms.offload, elements * 30 / 2e9, 1e-6);
  machine.network.host_memory_rate = 1e15;
  EXPECT_DOUBLE_EQ(Predict(machine, layout).terms.offload, transfers);
  layout.unified = true;  // the device updates
  machine.network.host_memory_rate = 1e9;
  EXPECT_DOUBLE_EQ(Predict(machine, layout).terms.offload, elements * 12 / 10e9);
}

TEST(Memory, OfStatesInUnifiedMemory_TheDeviceHasRoomsAndTheHostTheStates) {
  LayoutChoice layout = SmallLayout();
  const StepPrediction device = Predict(RoundMachine(), layout);
  const StageParameters held = ParametersOf(SmallShape(), layout);
  const double states = 12 * held.dense / layout.sharing();
  EXPECT_EQ(device.host_bytes, 0);
  layout.offload = Offload::kOptimizer;
  const StepPrediction host = Predict(RoundMachine(), layout);
  EXPECT_DOUBLE_EQ(host.host_bytes, states);
  EXPECT_NEAR(device.memory_bytes - host.memory_bytes, states, 1);
  layout.unified = true;
  const StepPrediction unified = Predict(RoundMachine(), layout);
  EXPECT_DOUBLE_EQ(unified.host_bytes, states);
  EXPECT_NEAR(unified.memory_bytes - host.memory_bytes, 384.0 * 1024 * 1024, 1);
}

TEST(Memory, WhereHostAndDeviceAreOne_MovingThereFreesNothingAndPagesStayWhereTheyAre) {
  Machine machine = RoundMachine();
  machine.network.host_is_device = true;
  LayoutChoice layout = SmallLayout();
  const StepPrediction device = Predict(machine, layout);
  for (const Offload offload : {Offload::kOptimizer, Offload::kActivations, Offload::kAll}) {
    layout.offload = offload;
    const StepPrediction elsewhere = Predict(machine, layout);
    EXPECT_EQ(elsewhere.memory_bytes, device.memory_bytes);
    EXPECT_EQ(elsewhere.host_bytes, 0);
    EXPECT_GE(elsewhere.seconds, device.seconds);
  }
  layout.offload = Offload::kOptimizer;
  layout.unified = true;
  EXPECT_EQ(Predict(machine, layout).terms.offload, 0);
  EXPECT_EQ(Predict(machine, layout).memory_bytes, device.memory_bytes);
}

// Each changes one figure for the better.
TEST(Step, BetterHardwareIsNeverSlower) {
  const std::vector<std::function<void(Machine&)>> betters = {
      [](Machine& m) { m.gpu.memory_rate *= 2; },
      [](Machine& m) { m.network.domain_rate *= 2; },
      [](Machine& m) { m.network.network_rate *= 2; },
      [](Machine& m) { m.network.domain_devices *= 2; },
      [](Machine& m) { m.network.host_rate *= 2; },
      [](Machine& m) { m.gpu.tile_seconds /= 2; },
      [](Machine& m) { m.calibration.product *= 1.2; },
      [](Machine& m) { m.calibration.attention *= 1.2; },
      [](Machine& m) { m.software.tensor_exposed /= 2; },
      [](Machine& m) { m.software.data_overlap = true; },
      [](Machine& m) { m.software.pipeline_overlap = true; }};
  std::vector<LayoutChoice> layouts = {SmallLayout(), SmallLayout(), SmallLayout(), SmallLayout()};
  layouts[1].sharding = Sharding::kZero3;
  layouts[1].pipeline = 1;
  layouts[2].sharding = Sharding::kReplicated;
  layouts[2].context = 2;
  layouts[3].precision = Precision::kFp8;
  layouts[3].offload = Offload::kAll;
  for (const LayoutChoice& layout : layouts) {
    const double plain = Predict(RoundMachine(), layout).seconds;
    for (size_t i = 0; i < betters.size(); ++i) {
      Machine machine = RoundMachine();
      betters[i](machine);
      EXPECT_LE(Predict(machine, layout).seconds, plain * (1 + 1e-12)) << i;
    }
  }
}

TEST(Step, MoreMicroBatchesTakeLonger) {
  LayoutChoice layout = SmallLayout();
  const double seconds = Predict(RoundMachine(), layout).seconds;
  layout.global_batch *= 2;
  EXPECT_GT(Predict(RoundMachine(), layout).seconds, seconds);
}

// 16 data ranks of 8 to a domain: shards inside each, their sums across.
TEST(Step, HybridShardingGathersInsideADomainAndSumsShardsAcross) {
  const Machine machine = RoundMachine();
  LayoutChoice layout{.data = 16, .sharding = Sharding::kZero1, .global_batch = 16};
  layout.replicas = 2;
  const double hybrid = Predict(machine, layout).terms.data;
  const double held = ParametersOf(SmallShape(), layout).dense;
  EXPECT_NEAR(hybrid,
              CollectiveSeconds(machine, Collective::kReduceScatter, {8, 8}, held * 4) +
                  CollectiveSeconds(machine, Collective::kAllGather, {8, 8}, held * 2) +
                  CollectiveSeconds(machine, Collective::kAllReduce, {2, 1}, held / 8 * 4),
              1e-9);
  // Each group has a whole set of shards.
  const double shared = Predict(machine, {.data = 8, .global_batch = 8}).memory_bytes;
  EXPECT_DOUBLE_EQ(Predict(machine, layout).memory_bytes, shared);
}

TEST(Step, HybridZero3SumsItsShardsOnceAStep) {
  const Machine machine = RoundMachine();
  LayoutChoice layout{.data = 16, .replicas = 2, .sharding = Sharding::kZero3, .global_batch = 16};
  const auto data = [&] { return Predict(machine, layout).terms.data; };
  const double held = ParametersOf(SmallShape(), layout).dense;
  const double sums = CollectiveSeconds(machine, Collective::kAllReduce, {2, 1}, held / 8 * 4);
  const double one = data();
  layout.global_batch = 32;
  EXPECT_NEAR(data() - one, one - sums, 1e-9);
  // Overlapped it is never slower, and never free.
  Machine overlapped = machine;
  overlapped.software.data_overlap = true;
  const double hidden = Predict(overlapped, layout).terms.data;
  EXPECT_LT(hidden, data());
  EXPECT_GT(hidden, 0);
  // What crosses domains with each micro-batch otherwise crosses once.
  layout.global_batch = 64;
  const double hybrid = data();
  layout.replicas = 1;
  EXPECT_GT(data(), hybrid);
}

TEST(Memory, ShardingMoreNeverNeedsMore) {
  LayoutChoice layout = SmallLayout();
  layout.pipeline = 1;
  double before = 1e18;
  for (const Sharding sharding : {Sharding::kReplicated, Sharding::kZero1, Sharding::kZero3}) {
    layout.sharding = sharding;
    const double bytes = Predict(RoundMachine(), layout).memory_bytes;
    EXPECT_LT(bytes, before);
    before = bytes;
  }
}

TEST(Memory, RecomputeAndOffloadSave) {
  LayoutChoice layout = SmallLayout();
  const double plain = Predict(RoundMachine(), layout).memory_bytes;
  layout.recompute = Recompute::kFull;
  EXPECT_LT(Predict(RoundMachine(), layout).memory_bytes, plain);
  layout = SmallLayout();
  layout.offload = Offload::kOptimizer;
  EXPECT_LT(Predict(RoundMachine(), layout).memory_bytes, plain);
}

TEST(Memory, ActivationsOfALayerAreWhatItsBackwardReads) {
  TrainingShape shape = SmallShape();
  LayoutChoice layout;  // 8,192 tokens on one device
  const double per_token = 8 * 4096.0 + 2 * (2 * 4096 + 2 * 1024) + 4 * 32 + 6 * 14336.0;
  EXPECT_DOUBLE_EQ(ActivationBytes({}, shape, layout), 8192 * per_token);
}

TEST(Step, ASearchEvaluatesAMillionLayoutsASecond) {
  const Machine machine = RoundMachine();
  const TrainingShape shape = SmallShape();
  const LayoutChoice layout = SmallLayout();
  const LayerCost cost = CostOfLayer(machine, shape, KeyOf(layout));
  constexpr int kSteps = 200000;
  double sum = 0, best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) sum += PredictStep(machine, shape, layout, cost).seconds;
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  EXPECT_GT(sum, 0);
  RecordProperty("evaluations_per_second", std::to_string(kSteps / best));
  EXPECT_GT(kSteps / best, 2e5);  // at -O1 beside other work; docs/benchmarks/planner.md has more
}

}  // namespace
}  // namespace strata::planner
