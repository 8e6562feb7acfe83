#include "planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "planner/performance/catalog.h"

namespace strata::planner {
namespace {

using ::testing::HasSubstr;

TrainingShape Llama405B() {
  return {.layers = 126,
          .hidden = 16384,
          .heads = 128,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 53248,
          .gated = true,
          .vocab = 128256,
          .sequence_length = 8192};
}
TrainingShape Llama8B() {
  return {.layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 14336,
          .gated = true,
          .vocab = 128256,
          .sequence_length = 8192};
}

SearchRequest RequestOf(const TrainingShape& shape, int64_t devices, int64_t batch) {
  SearchRequest request;
  request.machine = Catalog::Shipped().Find({.gpu = "H100"})->machine;
  request.shape = shape;
  request.devices = devices;
  request.global_batch = batch;
  request.memory_bytes = 0.94 * request.machine.gpu.memory_bytes;
  return request;
}

// All of them, by what the search's bounds must not change.
RankedPlan BestOfAllLegal(SearchRequest request) {
  request.most = 10'000'000;  // nothing is cut
  return Search(request)->plans.front();
}

TEST(SearchTest, AllOf405BOn16384Devices_FitsItsAnswerIntoADevice) {
  const SearchRequest request = RequestOf(Llama405B(), 16384, 2048);
  const auto begin = std::clock();
  const auto found = Search(request);
  std::printf("%.3f s of processor time\n",
              static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(found->legal, 10'000);
  ASSERT_EQ(found->plans.size(), 10u);
  for (size_t i = 0; i < found->plans.size(); ++i) {
    const RankedPlan& plan = found->plans[i];
    EXPECT_EQ(plan.layout.devices(), 16384);
    EXPECT_LE(plan.step.memory_bytes, request.memory_bytes);
    if (i > 0) {
      EXPECT_GE(plan.step.seconds, found->plans[i - 1].step.seconds);
    }
  }
}

TEST(SearchTest, SameRequest_HasTheSameAnswer) {
  const SearchRequest request = RequestOf(Llama405B(), 4096, 1024);
  const SearchResult once = *Search(request), again = *Search(request);
  ASSERT_EQ(once.plans.size(), again.plans.size());
  for (size_t i = 0; i < once.plans.size(); ++i) {
    EXPECT_EQ(once.plans[i].step.seconds, again.plans[i].step.seconds);
    EXPECT_EQ(once.plans[i].layout.tensor, again.plans[i].layout.tensor);
    EXPECT_EQ(once.plans[i].layout.pipeline, again.plans[i].layout.pipeline);
  }
}

TEST(SearchTest, WhatIsLeftOutByItsBound_IsNotFasterThanTheAnswer) {
  for (const int64_t devices : {1, 8, 64, 96}) {
    const SearchRequest request = RequestOf(Llama8B(), devices, 192);
    const SearchResult found = *Search(request);
    if (found.plans.empty()) continue;
    EXPECT_EQ(found.plans.front().step.seconds, BestOfAllLegal(request).step.seconds) << devices;
  }
}

TEST(SearchTest, PinnedDegrees_AreKept) {
  SearchRequest request = RequestOf(Llama405B(), 2048, 512);
  request.pins.tensor = 8;
  request.pins.pipeline = 16;
  request.pins.recompute = Recompute::kFull;
  const SearchResult found = *Search(request);
  ASSERT_FALSE(found.plans.empty());
  for (const RankedPlan& plan : found.plans) {
    EXPECT_EQ(plan.layout.tensor, 8);
    EXPECT_EQ(plan.layout.pipeline, 16);
    EXPECT_EQ(plan.layout.recompute, Recompute::kFull);
  }
}

TEST(SearchTest, NothingFits_TellsWhatNeedsLeast) {
  SearchRequest request = RequestOf(Llama405B(), 8, 8);
  request.memory_bytes = 10e9;
  const SearchResult found = *Search(request);
  EXPECT_TRUE(found.plans.empty());
  ASSERT_TRUE(found.smallest.has_value());
  EXPECT_GT(found.smallest->step.memory_bytes, 10e9);
}

TEST(SearchTest, BatchThatNoDegreeDivides_IsRefusedWithWhatToDo) {
  SearchRequest request = RequestOf(Llama8B(), 64, 7);
  request.pins.tensor = 1;
  request.pins.pipeline = 1;
  request.pins.context = 1;
  const auto found = Search(request);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("global batch of 7"));
}

TEST(SearchTest, PinsBeyondEveryDegree_AreNoLegalLayouts) {
  constexpr int64_t kHuge = int64_t{1} << 62;  // times 4: 0 in 64 bits
  for (std::optional<int64_t> Pins::*degree :
       {&Pins::tensor, &Pins::pipeline, &Pins::chunks, &Pins::context, &Pins::expert, &Pins::data,
        &Pins::micro_batch, &Pins::shard_group}) {
    SearchRequest request = RequestOf(Llama8B(), 64, 64);
    request.pins.tensor = 4;
    request.pins.pipeline = 4;
    request.pins.*degree = kHuge;
    EXPECT_EQ(Search(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

std::string WhyNone(const SearchRequest& request) {
  return std::string(Search(request).status().message());
}

TEST(SearchTest, APinThatNoLayoutHas_IsToldWithWhatItMayBe) {
  const std::pair<std::optional<int64_t> Pins::*, const char*> cases[] = {
      {&Pins::tensor,
       "tensor=3 does not cut 64 devices, 32 heads, 8 of keys, and widths of 4096 "
       "and 14336 evenly — use tensor=1, 2, 4 or 8"},
      {&Pins::pipeline,
       "pipeline=3 does not cut 64 devices and 32 layers (or 34 with the "
       "embedding and the head) evenly — use pipeline=1, 2, 4, 8, 16 or 32"},
      {&Pins::context,
       "context=3 does not cut 64 devices and, in two pieces a rank, 8192 tokens "
       "evenly — use context=1, 2, 4 or 8"},
      {&Pins::data, "data=3 does not divide 64 devices and a global batch of 64 — use data=1, 2"},
      {&Pins::micro_batch,
       "micro_batch=3 does not divide what data ranks have of a global batch "
       "of 64 — use micro_batch=1, 2"},
      {&Pins::shard_group, "shard_group=3 divides no number of data ranks that 64 devices"}};
  for (const auto& [pin, text] : cases) {
    SearchRequest request = RequestOf(Llama8B(), 64, 64);
    request.pins.*pin = 3;
    EXPECT_THAT(WhyNone(request), HasSubstr(text));
  }
}

TEST(SearchTest, PinsThatDoNotGoTogether_AreToldWithWhatEachMayBe) {
  SearchRequest request = RequestOf(Llama8B(), 64, 64);
  request.pins.tensor = 4;
  request.pins.data = 32;
  EXPECT_THAT(WhyNone(request), HasSubstr("tensor=4, data=32 do not go together on 64 devices"));
  EXPECT_THAT(WhyNone(request), HasSubstr("change one: tensor=1 or 2; or data=1, 2, 4, 8 or 16"));
  // Two have to go: 64 devices are not 2 · 2 · 2 · 2.
  request.pins = {.tensor = 2, .pipeline = 2, .context = 2, .data = 2};
  const std::string why = WhyNone(request);
  EXPECT_THAT(why, HasSubstr("do not go together"));
  EXPECT_THAT(why, HasSubstr("change "));
}

TEST(SearchTest, WithoutPins_ABatchThatWouldDoIsTold) {
  EXPECT_THAT(
      WhyNone(RequestOf(Llama8B(), 7, 8)),
      HasSubstr("no layout divides 7 devices, 32 heads, 32 layers, sequences of 8192 tokens "
                "and a global batch of 8"));
  EXPECT_THAT(WhyNone(RequestOf(Llama8B(), 7, 8)), HasSubstr("or a global batch of 14"));
}

TEST(SearchTest, WhatIsOnTheHostInVain_IsNotListed) {
  SearchRequest request = RequestOf(Llama8B(), 64, 64);
  request.most = 1000;
  const SearchResult found = *Search(request);
  for (const RankedPlan& plan : found.plans) {
    if (plan.layout.offload == Offload::kNone) continue;
    RankedPlan less = plan;
    less.layout.offload = Offload::kNone;
    less.step = PredictStep(request.machine, request.shape, less.layout);
    EXPECT_TRUE(less.step.seconds > plan.step.seconds ||
                less.step.memory_bytes > request.memory_bytes);
  }
}

TEST(SearchTest, ExpertsOfAModelThatHasNone_AreNoLegalLayout) {
  SearchRequest request = RequestOf(Llama8B(), 64, 64);
  request.pins.expert = 2;
  EXPECT_THAT(std::string(Search(request).status().message()), HasSubstr("has no experts"));
}

TEST(SearchTest, TensorBeyondTheDomain_IsToldAsSuch) {
  SearchRequest request = RequestOf(Llama8B(), 64, 64);
  request.pins.tensor = 16;
  EXPECT_THAT(std::string(Search(request).status().message()),
              HasSubstr("wider than an NVLink domain of 8 devices"));
}

TEST(SearchTest, ShardsPinnedForOneRank_ChangeNothing) {
  SearchRequest request = RequestOf(Llama8B(), 1, 8);
  request.memory_bytes = 1e12;
  const SearchResult open = *Search(request);
  request.pins.sharding = Sharding::kZero3;
  const SearchResult pinned = *Search(request);
  EXPECT_EQ(pinned.legal, open.legal);
  EXPECT_EQ(pinned.plans.front().step.memory_bytes, open.plans.front().step.memory_bytes);
  EXPECT_EQ(pinned.plans.front().step.seconds, open.plans.front().step.seconds);
}

// Slow links between domains: parameters are gathered inside them.
TEST(SearchTest, SlowNetwork_SharesInsideDomainsAndReplicatesAcross) {
  SearchRequest request = RequestOf(Llama8B(), 1024, 1024);
  request.pins = {.tensor = 1, .pipeline = 1, .context = 1, .sharding = Sharding::kZero3};
  request.machine.network.network_rate /= 8;
  const SearchResult open = *Search(request);
  const LayoutChoice& best = open.plans.front().layout;
  EXPECT_GT(best.replicas, 1);
  EXPECT_GE(best.sharing(), request.machine.network.domain_devices);
  request.pins.shard_group = 1024;
  request.pins.micro_batch = best.micro_batch;
  request.pins.recompute = best.recompute;
  request.pins.offload = best.offload;
  const SearchResult whole = *Search(request);
  EXPECT_EQ(whole.plans.front().layout.replicas, 1);
  EXPECT_GT(whole.plans.front().step.seconds, open.plans.front().step.seconds);
  EXPECT_LT(whole.plans.front().step.memory_bytes, open.plans.front().step.memory_bytes);
  // What memory does not allow is not chosen: the groups grow.
  request.pins.shard_group.reset();
  request.memory_bytes =
      (whole.plans.front().step.memory_bytes + open.plans.front().step.memory_bytes) / 2;
  const SearchResult tight = *Search(request);
  ASSERT_FALSE(tight.plans.empty());
  EXPECT_GT(tight.plans.front().layout.sharing(), best.sharing());
}

TEST(SearchTest, PinnedShardGroup_IsKept) {
  SearchRequest request = RequestOf(Llama8B(), 64, 64);
  request.pins.shard_group = 16;
  const SearchResult found = *Search(request);
  ASSERT_FALSE(found.plans.empty());
  for (const RankedPlan& plan : found.plans) {
    EXPECT_NE(plan.layout.sharding, Sharding::kReplicated);
    EXPECT_EQ(plan.layout.data / plan.layout.replicas, 16);
  }
  request.pins.shard_group = 3;
  EXPECT_FALSE(Search(request).ok());
}

TEST(SearchTest, OneDomain_HasNoReplicas) {
  SearchRequest request = RequestOf(Llama8B(), 8, 64);
  request.most = 10'000;
  const SearchResult found = *Search(request);
  for (const RankedPlan& plan : found.plans) EXPECT_EQ(plan.layout.replicas, 1);
}

TEST(SearchTest, MoreMemory_IsNeverSlower) {
  double before = 0;
  for (const double bytes : {40e9, 60e9, 80e9, 141e9, 280e9}) {
    SearchRequest request = RequestOf(Llama405B(), 2048, 512);
    request.memory_bytes = bytes;
    const SearchResult found = *Search(request);
    if (found.plans.empty()) continue;
    if (before > 0) {
      EXPECT_LE(found.plans.front().step.seconds, before) << bytes;
    }
    before = found.plans.front().step.seconds;
  }
  EXPECT_GT(before, 0);
}

SearchRequest OneOf(const char* gpu, const TrainingShape& shape) {
  SearchRequest request = RequestOf(shape, 1, 8);
  request.machine = Catalog::Shipped().Find({.gpu = gpu})->machine;
  request.memory_bytes = 0.95 * request.machine.gpu.memory_bytes;
  return request;
}

TEST(SearchTest, GradientsAndParametersLeaveTheDeviceOnlyWhereNothingElseFits) {
  SearchRequest request = OneOf("H100", Llama8B());
  const SearchResult roomy = *Search(request);
  ASSERT_FALSE(roomy.plans.empty());
  for (const RankedPlan& plan : roomy.plans) {
    EXPECT_FALSE(Has(plan.layout.offload, Offload::kGradients));
  }
  // 2 bytes of each parameter, a few layers and what a micro-batch keeps: gradients are away.
  request.memory_bytes = 30e9;
  const SearchResult gradients = *Search(request);
  ASSERT_FALSE(gradients.plans.empty());
  EXPECT_TRUE(Has(gradients.plans.front().layout.offload, Offload::kGradients));
  EXPECT_GT(gradients.plans.front().step.host_bytes, 8e9 * (12 + 4));
  // Not even the parameters: layers are streamed.
  request.memory_bytes = 22e9;
  const SearchResult streamed = *Search(request);
  ASSERT_FALSE(streamed.plans.empty());
  for (const RankedPlan& plan : streamed.plans) {
    EXPECT_TRUE(Has(plan.layout.offload, Offload::kParameters));
  }
  EXPECT_GT(streamed.plans.front().step.host_bytes, 8e9 * (12 + 4 + 2));
  EXPECT_GE(streamed.plans.front().step.seconds, gradients.plans.front().step.seconds);
  request.tiers = false;
  EXPECT_TRUE(Search(request)->plans.empty());
}

bool HasUnified(const SearchResult& found) {
  return std::any_of(found.plans.begin(), found.plans.end(),
                     [](const RankedPlan& plan) { return plan.layout.unified; });
}

TEST(SearchTest, OfACoherentLink_StatesAreInUnifiedMemoryWhereTheHostHasNoTimeToUpdate) {
  SearchRequest request = OneOf("GH200", Llama8B());
  request.global_batch = 1;
  const auto seconds = [&](bool unified) {
    request.pins.offload = Offload::kOptimizer;
    request.pins.unified = unified;
    const SearchResult found = *Search(request);
    EXPECT_EQ(HasUnified(found), unified);
    return found.plans.front().step.seconds;
  };
  EXPECT_LT(seconds(false), seconds(true));  // a forward of 8,192 tokens hides most updates
  request.shape.sequence_length = 2048;
  EXPECT_LT(seconds(true), seconds(false));
  const double pinned = seconds(true);
  request.pins.offload.reset();
  const SearchResult open = *Search(request);
  EXPECT_TRUE(open.plans.front().layout.unified);
  EXPECT_LE(open.plans.front().step.seconds, pinned);
}

TEST(SearchTest, OfPcieAndOfOneMemory_UnifiedMemoryIsNotLookedAtUnlessItIsPinned) {
  for (const char* gpu : {"H100", "GB10"}) {
    SearchRequest request = OneOf(gpu, Llama8B());
    request.shape.layers = 8;
    request.most = 100'000;
    EXPECT_FALSE(HasUnified(*Search(request))) << gpu;
    request.pins.offload = Offload::kOptimizer;
    request.pins.unified = true;
    EXPECT_TRUE(HasUnified(*Search(request))) << gpu;
  }
}

TEST(SearchTest, WhereHostAndDeviceAreOneMemory_NothingIsMoved) {
  SearchRequest request = OneOf("GB10", Llama8B());
  request.memory_bytes = 100e9;  // less than its 16 bytes a parameter
  const SearchResult found = *Search(request);
  EXPECT_TRUE(found.plans.empty());
  EXPECT_EQ(found.smallest->layout.offload, Offload::kNone);
}

TEST(SearchTest, WhatTheHostDoesNotHold_IsLeftOut) {
  SearchRequest request = OneOf("GH200", Llama8B());
  ASSERT_FALSE(Search(request)->plans.empty());
  request.machine.network.host_memory_bytes = 90e9;  // 12 bytes of 8 G parameters are 96
  request.most = 1000;
  const SearchResult found = *Search(request);
  for (const RankedPlan& plan : found.plans) {
    EXPECT_LE(plan.step.host_bytes, 90e9);
    EXPECT_NE(plan.layout.offload, Offload::kOptimizer);
  }
}

TEST(SearchTest, FlopsOfAToken_AreWhatOneWorksOutByHand) {
  const TrainingShape shape{.layers = 2,
                            .hidden = 8,
                            .heads = 2,
                            .kv_heads = 1,
                            .head_dim = 4,
                            .ffn = 16,
                            .gated = true,
                            .vocab = 10,
                            .sequence_length = 4};
  // A layer: q and o 64 each, k and v 32 each, three matrices of 128; attention 2 · 4 · 8.
  EXPECT_EQ(FlopsPerToken(shape, false), 6 * (2 * (64 * 2 + 32 * 2 + 3 * 128 + 64) + 80));
  EXPECT_EQ(FlopsPerToken(shape, true), 6 * (2 * (64 * 2 + 32 * 2 + 3 * 128 + 32) + 80));
}

}  // namespace
}  // namespace strata::planner
