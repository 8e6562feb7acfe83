#include "planner/search/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "common/units.h"
#include "planner/performance/catalog.h"
#include "planner/performance/performance_testing.h"

namespace strata::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ExplainTest, LayoutInJobWords_LeavesOutWhatSaysNothing) {
  LayoutChoice layout;
  layout.data = 4;
  layout.sharding = Sharding::kZero3;
  EXPECT_EQ(InJobWords(layout).ToText(), "data 4, shard zero3, micro_batch 1");
  layout.replicas = 2;
  EXPECT_EQ(InJobWords(layout).ToText(), "data 4, shard zero3, shard_group 2, micro_batch 1");
  layout = {.tensor = 8,
            .pipeline = 4,
            .chunks = 2,
            .data = 1,
            .recompute = Recompute::kFull,
            .offload = Offload::kAll};
  EXPECT_EQ(InJobWords(layout).ToText(),
            "tensor 8, pipeline 4, pipeline_schedule interleaved, virtual_stages 2, data 1, "
            "micro_batch 1, recompute full, optimizer on host, activations on host");
  EXPECT_EQ(JobWords{}.ToText(), "all on the device");
  EXPECT_EQ((JobWords{.parallel = {}, .memory = {{"optimizer", "host"}}}).ToText(),
            "optimizer on host");
}

TEST(ExplainTest, ListOfSavedValues_IsAsAJobFileHasIt) {
  const LayoutChoice layout{.recompute = Recompute::kListed,
                            .saved = kNoValues.with(SavedValue::kQkv).with(SavedValue::kUp),
                            .listed_layers = 12};
  EXPECT_EQ(InJobWords(layout).ToText(),
            "data 1, micro_batch 1, recompute {save: [qkv, gate_up], layers: 0-11}");
  EXPECT_EQ(InJobWords(layout, SavedNames(model::Family::kGpt2)).parallel.back().second,
            "{save: [qkv, up], layers: 0-11}");
}

TEST(ExplainTest, SavedValues_AreToldWithWhatTheOthersCostAndFree) {
  SearchRequest request;
  request.machine = RoundMachine();
  request.shape = SmallShape();
  LayoutChoice layout{.global_batch = 2, .recompute = Recompute::kListed};
  layout.saved = kUsualValues.without(SavedValue::kUp);
  EXPECT_EQ(WhySaved(request, layout), "");  // it knows modes only
  request.machine.software.saves_by_value = true;
  // 8,192 tokens · 32 layers · (12,288 + 8,320 + 8,192 bytes); gate, up: 57,344 bytes.
  EXPECT_THAT(
      WhySaved(request, layout),
      AllOf(HasSubstr("saved: qkv, attention, residual (7.5 GB in all); made again: norms "),
            HasSubstr(" for 4.3 GB, up 1."), HasSubstr(" s for 15.0 GB, activation ")));
  layout.listed_layers = 8;
  EXPECT_THAT(WhySaved(request, layout),
              AllOf(HasSubstr("saved: qkv, attention, residual, up in 24 layers (18.8 GB in all)"),
                    HasSubstr(" for 3.8 GB, activation ")));
}

TEST(ExplainTest, NamedTerms_AddUpToTheStep) {
  StepTerms terms{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  double sum = 0;
  for (const auto& [name, seconds] : NamedTerms(terms)) sum += seconds;
  EXPECT_DOUBLE_EQ(sum, terms.total());
}

TEST(ExplainTest, SlowerPlan_LosesByItsLargestTerms) {
  RankedPlan best, other;
  best.step.terms = {.products = 2, .tensor = 0.5, .bubble = 0.1};
  other.step.terms = {.products = 2, .tensor = 0.2, .bubble = 0.9, .data = 0.3};
  for (RankedPlan* plan : {&best, &other}) plan->step.seconds = plan->step.terms.total();
  EXPECT_EQ(WhySlower(best, other),
            "800 ms a step more: bubble 800 ms, data 300 ms; less: tensor 300 ms");
  other = best;
  other.step.memory_bytes = 2e9;
  EXPECT_EQ(WhySlower(best, other), "as fast, and needs 2.0 GB more of a device");
}

TEST(ExplainTest, FastestPlanInUnifiedMemory_TellsItsPagesAndWhatTheHostWouldTake) {
  SearchRequest request;
  request.machine = Catalog::Shipped().Find({.gpu = "GH200"})->machine;
  request.shape = {.layers = 2,
                   .hidden = 1024,
                   .heads = 8,
                   .kv_heads = 8,
                   .head_dim = 128,
                   .ffn = 4096,
                   .vocab = 32000,
                   .sequence_length = 1024};
  RankedPlan best;
  best.layout = {.global_batch = 8, .offload = Offload::kOptimizer, .unified = true};
  best.step = PredictStep(request.machine, request.shape, best.layout);
  SearchResult result;
  result.plans = {best};
  const std::string why = WhyBest(request, result);
  const double bytes = 12 * ParametersOf(request.shape, best.layout).dense;
  EXPECT_THAT(why, HasSubstr(absl::StrFormat("the optimizer's state in unified memory: pages of "
                                             "%.1f GB come and go each step",
                                             bytes / 1e9)));
  best.layout.unified = false;
  const double on_host = PredictStep(request.machine, request.shape, best.layout).seconds;
  EXPECT_THAT(why, HasSubstr("; updated on the host the step would take " +
                             common::FormatShortSeconds(on_host)));
}

TEST(ExplainTest, FastestPlan_TellsWhatMoreMemoryWouldGive) {
  SearchRequest request;
  request.memory_bytes = 80e9;
  SearchResult result;
  RankedPlan best, large;
  best.step.terms = {.products = 3, .bubble = 1};
  best.step.seconds = 4;
  large.step.terms = {.products = 3};
  large.step.seconds = 3;
  large.step.memory_bytes = 99e9;
  large.layout.data = 8;
  result.plans = {best};
  EXPECT_EQ(WhyBest(request, result),
            "products and attention are 75 % of the step; of the rest bubble 1 s");
  result.fastest_too_large = large;
  EXPECT_THAT(WhyBest(request, result),
              HasSubstr("; data 8, shard zero1, micro_batch 1 would take 3 s, but needs 99.0 GB of "
                        "80.0 GB"));
}

}  // namespace
}  // namespace strata::planner
