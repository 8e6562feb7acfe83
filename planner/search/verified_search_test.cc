#include "planner/search/verified_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "planner/fit/memory_of_job.h"
#include "planner/fit/verdict.h"
#include "planner/performance/catalog.h"
#include "planner/search/explain.h"
#include "planner/search/job_choice.h"

namespace strata::planner {
namespace {

struct Question {
  FitModel model;
  FitDevice device;
  SearchRequest request;
};

Question Ask(const std::string& model, const std::string& gpu, int64_t devices, int64_t batch) {
  Question question{.model = *PresetModel(model), .device = *DeviceOf(gpu, 0)};
  SearchRequest& request = question.request;
  request.machine = Catalog::Shipped().Find({.gpu = gpu, .framework = kOwnFramework})->machine;
  request.shape = *ShapeOf(question.model, std::min<int64_t>(question.model.spec.context, 4096));
  request.devices = devices;
  request.global_batch = batch;
  request.memory_bytes = 0.95 * static_cast<double>(question.device.bytes);
  request.most = 5;
  return question;
}

absl::StatusOr<SearchResult> Answer(const Question& question) {
  PassBudget budget{.each = 1 << 20, .all = 1 << 30};
  return SearchVerified(question.request, question.model, question.device, budget);
}

// What `strata fit` says of a plan as it stands, with all its micro-batches and stages.
Fit FitOf(const Question& question, const LayoutChoice& layout) {
  FitRequest request{
      .model = question.model,
      .job = JobOf(question.request.shape, layout, SavedNames(question.model.spec.family)),
      .device = question.device};
  CompleteRequest(request);
  const auto fit = ReadFit(request);
  EXPECT_TRUE(fit.ok()) << fit.status();
  return *fit;
}

TEST(VerifiedSearch, WhatIsListedFitsByItsProgramsAndHasTheirBytes) {
  for (const auto& [model, gpu, devices, batch] :
       {std::tuple("llama-3.1-8b", "H100", 8, 64), std::tuple("llama-3.1-8b", "RTX 4090", 4, 16),
        std::tuple("llama-3.2-1b", "RTX 4090", 2, 16), std::tuple("gpt2", "T4", 1, 8)}) {
    const Question question = Ask(model, gpu, devices, batch);
    const auto found = Answer(question);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_FALSE(found->plans.empty()) << gpu;
    EXPECT_TRUE(std::is_sorted(found->plans.begin(), found->plans.end(), Faster));
    for (const RankedPlan& plan : found->plans) {
      EXPECT_TRUE(plan.bytes_of_programs);
      const Fit fit = FitOf(question, plan.layout);
      EXPECT_TRUE(fit.verdict.fits) << fit.verdict.ToText();
      double held = 0;
      for (const StageMemory& stage : fit.memory.stages) {
        held = std::max(held, static_cast<double>(stage.tier(fit.memory.compute_tier).total()));
      }
      EXPECT_LE(plan.step.memory_bytes, question.request.memory_bytes);
      // Streamed layers take what there is; the tables of few micro-batches are smaller.
      if (!Has(plan.layout.offload, Offload::kParameters)) {
        EXPECT_NEAR(plan.step.memory_bytes / held, 1, 0.003) << gpu;
      }
    }
  }
}

TEST(VerifiedSearch, WhatFitsByTheFormulaOnlyLeavesItsPlaceToOthers) {
  const Question question = Ask("llama-3.1-8b", "H100", 8, 64);
  const auto by_formula = Search(question.request);
  const auto verified = Answer(question);
  ASSERT_TRUE(by_formula.ok() && verified.ok());
  int left_out = 0;
  for (const RankedPlan& plan : by_formula->plans) {
    const bool fits =
        BytesOfPrograms(question.model, question.device, question.request, plan.layout)->device <=
        question.request.memory_bytes;
    const bool listed =
        std::any_of(verified->plans.begin(), verified->plans.end(), [&](const RankedPlan& other) {
          return InJobWords(plan.layout) == InJobWords(other.layout);
        });
    EXPECT_EQ(fits, listed);
    left_out += fits ? 0 : 1;
  }
  EXPECT_GT(left_out, 0);
  EXPECT_EQ(verified->plans.size(), by_formula->plans.size());
}

TEST(VerifiedSearch, HowManyAreAskedForAndWhatIsPinnedDoNotChangeTheFirst) {
  for (const auto& [gpu, devices] : {std::pair("RTX 4090", 8), std::pair("T4", 8)}) {
    Question question = Ask("llama-3.1-8b", gpu, devices, 64);
    const auto five = Answer(question);
    ASSERT_TRUE(five.ok() && !five->plans.empty()) << gpu;
    const RankedPlan& best = five->plans.front();
    for (const int most : {1, 2, 9}) {
      question.request.most = most;
      EXPECT_EQ(Answer(question)->plans.front().step.seconds, best.step.seconds) << gpu << most;
    }
    question.request.pins.pipeline = best.layout.pipeline;
    question.request.pins.offload = best.layout.offload;
    EXPECT_EQ(Answer(question)->plans.front().step.seconds, best.step.seconds) << gpu;
  }
}

TEST(VerifiedSearch, WhatTheFormulaOverestimatesIsListedToo) {
  Question question = Ask("llama-3.1-8b", "H100", 8, 64);
  Pins& pins = question.request.pins;
  pins.tensor = pins.pipeline = pins.chunks = pins.context = 1;
  pins.micro_batch = pins.shard_group = 8;
  pins.sharding = Sharding::kZero1;
  pins.offload = Offload::kOptimizer;
  pins.recompute = Recompute::kListed;
  pins.saved = kNoValues.with(SavedValue::kQkv).with(SavedValue::kAttention);
  const auto by_formula = Search(question.request);
  ASSERT_TRUE(by_formula.ok());
  EXPECT_TRUE(by_formula->plans.empty());
  const auto verified = Answer(question);
  ASSERT_TRUE(verified.ok());
  ASSERT_FALSE(verified->plans.empty());
  EXPECT_TRUE(FitOf(question, verified->plans.front().layout).verdict.fits);
}

TEST(VerifiedSearch, BeyondTheBudgetAndWithoutProgramsBytesAreTheFormulas) {
  Question question = Ask("llama-3.1-8b", "H100", 8, 64);
  PassBudget budget{.each = 96, .all = 200};
  const auto found = SearchVerified(question.request, question.model, question.device, budget);
  ASSERT_TRUE(found.ok());
  const auto looked_at =
      std::count_if(found->plans.begin(), found->plans.end(),
                    [](const RankedPlan& plan) { return plan.bytes_of_programs; });
  EXPECT_GT(looked_at, 0);
  EXPECT_LT(looked_at, 5);
  EXPECT_LT(budget.all, 64);
  question.request.precision = Precision::kFp8;
  const auto narrow = Answer(question);
  ASSERT_TRUE(narrow.ok());
  EXPECT_FALSE(narrow->plans.front().bytes_of_programs);
}

TEST(VerifiedSearch, NothingFits_TheSmallestIsTold) {
  Question question = Ask("llama-3.1-8b", "L4", 8, 64);
  question.request.tiers = false;
  const auto found = Answer(question);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->plans.empty());
  ASSERT_TRUE(found->smallest.has_value());
  EXPECT_TRUE(found->smallest->bytes_of_programs);
  EXPECT_GT(found->smallest->step.memory_bytes, question.request.memory_bytes);
}

}  // namespace
}  // namespace strata::planner
