// What the search has blocks save where that is chosen by value.
#include <gtest/gtest.h>

#include <tuple>

#include "planner/performance/catalog.h"
#include "planner/performance/memory_estimate.h"
#include "planner/performance/performance_testing.h"
#include "planner/search/search.h"

namespace strata::planner {
namespace {

SearchRequest OwnRequest(int64_t devices, int64_t batch, double memory_bytes) {
  SearchRequest request;
  request.machine = Catalog::Shipped().Find({.gpu = "H100", .framework = kOwnFramework})->machine;
  request.shape = SmallShape();
  request.devices = devices;
  request.global_batch = batch;
  request.memory_bytes = memory_bytes;
  return request;
}

// One layout, 8,192 tokens on one device of one processor whose memory takes no time: products
// take their FLOPs, nothing else anything but attention.
SearchRequest HandRequest() {
  SearchRequest request;
  request.machine = RoundMachine();
  request.machine.software.saves_by_value = true;
  request.machine.gpu.processors = 1;
  request.machine.gpu.memory_rate = 1e18;
  request.machine.gpu.tile_seconds = request.machine.gpu.kernel_seconds = 0;
  request.shape = SmallShape();
  request.shape.layers = 10;
  request.shape.heads = 16;
  request.shape.ffn = 8192;
  request.pins.offload = Offload::kNone;
  return request;
}
// Of a layer: 2 bytes of 4,096 numbers a token, and the product of 2,048 that makes them.
constexpr double kResidualBytes = 8192 * 2 * 4096.0;
constexpr double kResidualSeconds = 2 * 8192 * 2048.0 * 4096 / 100e12;

StepPrediction UsualStep(const SearchRequest& request) {
  return PredictStep(request.machine, request.shape,
                     {.data = 1, .sharding = Sharding::kReplicated});
}

// Norms and activations cost nothing to make again, so none is the third rung; then the residual
// takes 2 · 2,048 FLOPs for 2 bytes, other products twice that, attention four times. Two and a
// half layers' worth are missing, and the one that is made again is there besides.
TEST(SavedChoice, WhereALittleIsMissing_SoManyLayersMakeTheCheapestAgain) {
  SearchRequest request = HandRequest();
  const StepPrediction usual = UsualStep(request);
  request.memory_bytes = usual.memory_bytes + kResidualBytes - 2.5 * kResidualBytes;
  const RankedPlan best = Search(request)->plans.front();
  EXPECT_EQ(best.layout.recompute, Recompute::kListed);
  EXPECT_EQ(best.layout.saved, kUsualValues.without(SavedValue::kResidual));
  EXPECT_EQ(best.layout.listed_layers, 3);
  EXPECT_NEAR(best.step.seconds - usual.seconds, 3 * kResidualSeconds, 1e-6);
  EXPECT_NEAR(best.step.memory_bytes, request.memory_bytes - 0.5 * kResidualBytes, 10);
}

// Just what ten layers give. With queries, keys and values as well it would be twice as much a
// layer, of which as much is there at once: six layers, of 4.1 ms each instead of 1.4.
TEST(SavedChoice, WhereAMiddleRungJustFits_ItIsTheAnswer) {
  SearchRequest request = HandRequest();
  const StepPrediction usual = UsualStep(request);
  request.memory_bytes = usual.memory_bytes + kResidualBytes - 10 * kResidualBytes + 10;
  const RankedPlan best = Search(request)->plans.front();
  EXPECT_EQ(best.layout.recompute, Recompute::kListed);
  EXPECT_EQ(best.layout.saved, kUsualValues.without(SavedValue::kResidual));
  EXPECT_EQ(best.layout.listed_layers, 0);
  EXPECT_NEAR(best.step.seconds - usual.seconds, 10 * kResidualSeconds, 1e-6);
}

TEST(SavedChoice, WhereThereIsRoom_EverythingIsSaved) {
  SearchRequest request = OwnRequest(1, 1, 1e12);
  request.pins.offload = Offload::kNone;
  const LayoutChoice best = Search(request)->plans.front().layout;
  EXPECT_EQ(best.recompute, Recompute::kListed);
  EXPECT_EQ(best.saved, kAllValues);
  EXPECT_EQ(best.listed_layers, 0);
}

// Between what none and what everything takes, some layers save everything.
TEST(SavedChoice, WhereThereIsSomeRoom_SoManyLayersSaveEverything) {
  SearchRequest request = OwnRequest(1, 1, 1e12);
  request.pins.offload = Offload::kNone;
  const double all = Search(request)->plans.front().step.memory_bytes;
  request.memory_bytes = all - 1e9;  // dropping norms alone would give four times that
  const RankedPlan best = Search(request)->plans.front();
  EXPECT_EQ(best.layout.saved, kAllValues);
  EXPECT_GT(best.layout.listed_layers, 0);
  EXPECT_LT(best.layout.listed_layers, request.shape.layers);
  EXPECT_LE(best.step.memory_bytes, request.memory_bytes);
}

TEST(SavedChoice, IsNeverSlowerThanTheBestModeThatFits) {
  for (const int64_t devices : {1, 8, 64}) {
    for (const double bytes : {30e9, 50e9, 76e9, 134e9}) {
      SearchRequest request = OwnRequest(devices, 64, bytes);
      const SearchResult open = *Search(request);
      for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        request.pins.recompute = mode;
        const SearchResult pinned = *Search(request);
        if (pinned.plans.empty()) continue;
        ASSERT_FALSE(open.plans.empty());
        EXPECT_LE(open.plans.front().step.seconds, pinned.plans.front().step.seconds);
        EXPECT_EQ(pinned.plans.front().layout.recompute, mode);
        EXPECT_LE(open.plans.front().step.memory_bytes, bytes);
      }
    }
  }
}

TEST(SavedChoice, OfPlansThatDifferInNothingElseThereIsOne) {
  SearchRequest request = OwnRequest(8, 64, 76e9);
  request.most = 1000;
  const SearchResult found = *Search(request);
  for (size_t i = 1; i < found.plans.size(); ++i) {
    LayoutChoice a = found.plans[i - 1].layout, b = found.plans[i].layout;
    const auto rest = [](const LayoutChoice& l) {
      return std::tuple(l.tensor, l.pipeline, l.chunks, l.context, l.data, l.replicas, l.sharding,
                        l.micro_batch, l.offload, l.unified);
    };
    EXPECT_NE(rest(a), rest(b));
  }
}

TEST(SavedChoice, InAPipelineAListIsForAllLayers) {
  SearchRequest request = OwnRequest(16, 64, 60e9);
  request.pins.pipeline = 4;
  request.most = 1000;
  const SearchResult found = *Search(request);
  for (const RankedPlan& plan : found.plans) EXPECT_EQ(plan.layout.listed_layers, 0);
}

TEST(SavedChoice, APinnedListIsKept) {
  SearchRequest request = OwnRequest(8, 64, 76e9);
  request.pins.recompute = Recompute::kListed;
  request.pins.saved = kNoValues.with(SavedValue::kQkv);
  const SearchResult found = *Search(request);
  ASSERT_FALSE(found.plans.empty());
  for (const RankedPlan& plan : found.plans) {
    EXPECT_EQ(plan.layout.saved, request.pins.saved);
    EXPECT_EQ(plan.layout.listed_layers, 0);
  }
}

TEST(SavedChoice, OtherSoftwareKnowsModesOnly) {
  SearchRequest request = OwnRequest(8, 64, 76e9);
  request.machine = Catalog::Shipped().Find({.gpu = "H100"})->machine;
  request.most = 1000;
  const SearchResult found = *Search(request);
  for (const RankedPlan& plan : found.plans) {
    EXPECT_NE(plan.layout.recompute, Recompute::kListed);
  }
}

}  // namespace
}  // namespace strata::planner
