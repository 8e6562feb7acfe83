// The step programs of layouts on devices of the catalog, beside the closed form and beside runs.
#include "planner/search/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "planner/cost/catalog_cost_model.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/presets.h"
#include "planner/performance/catalog.h"
#include "planner/search/job_choice.h"
#include "planner/search/predicted_job.h"

namespace strata::planner {
namespace {

Machine On(const std::string& gpu, Precision precision = Precision::kHalf) {
  const auto found =
      Catalog::Shipped().Find({.gpu = gpu, .precision = precision, .framework = kOwnFramework});
  EXPECT_TRUE(found.ok()) << found.status();
  return found->machine;
}

RankedPlan Planned(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout) {
  return {layout, PredictStep(machine, shape, layout)};
}

absl::StatusOr<Replay> ReplayOf(const std::string& model, const std::string& gpu,
                                const LayoutChoice& layout, int64_t sequence = 2048) {
  const FitModel preset = *PresetModel(model);
  const TrainingShape shape = *ShapeOf(preset, sequence);
  const Machine machine = On(gpu, layout.precision);
  return ReplayPlan(machine, preset.spec, shape, Planned(machine, shape, layout));
}

// docs/benchmarks/gpu/h200_2026-11.md, third run. The calibration has three numbers of note from
// these same runs, fitted to the closed form; what is tested is that the programs' own ops, priced
// one by one, come to the steps that were measured.
struct MeasuredStep {
  const char* model;
  int64_t sequence, micro_batch;
  bool small_states;  // split masters, moments of 8 bits, gradients of bf16
  double seconds;
};
constexpr MeasuredStep kRuns[] = {{"gpt2", 1024, 32, false, 0.0583},
                                  {"qwen2.5-1.5b", 4096, 2, false, 0.1706},
                                  {"llama-3.1-8b", 4096, 1, true, 0.3897}};

TEST(Replay, StepsThatRanOnAnH200ArePredictedWithinATenth) {
  for (const MeasuredStep& run : kRuns) {
    const FitModel model = *PresetModel(run.model);
    LayoutChoice layout;
    layout.sharding = Sharding::kReplicated;
    layout.micro_batch = layout.global_batch = run.micro_batch;
    v1::JobSpec job = JobOf(*ShapeOf(model, run.sequence), layout);
    if (run.small_states) {
      v1::OptimizerSpec& optimizer = *job.mutable_train()->mutable_optimizer();
      optimizer.set_master(v1::OptimizerSpec::MASTER_SPLIT);
      optimizer.set_state(v1::OptimizerSpec::STATE_8BIT);
      optimizer.set_gradient(v1::OptimizerSpec::GRADIENT_BF16);
    }
    const Machine machine = On("H200");
    const CatalogCostModel costs(machine);
    const auto predicted =
        PredictJob(job, model.spec, {.scratch = CollectiveScratch, .costs = &costs});
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    const double seconds = predicted->seconds + machine.calibration.overhead_seconds;
    EXPECT_NEAR(seconds / run.seconds, 1, 0.13) << run.model;
    const auto choice = ChoiceOf(Catalog::Shipped(), model, job, "H200");
    ASSERT_TRUE(choice.has_value());
    const double closed = PredictStep(choice->machine, choice->shape, choice->layout).seconds;
    std::printf("%s: %.1f ms, closed form %.1f, replay %.1f\n", run.model, 1e3 * run.seconds,
                1e3 * closed, 1e3 * seconds);
    EXPECT_NEAR(closed / run.seconds, 1, 0.17) << run.model;
  }
}

TEST(Replay, TermsAddUpToTheStep) {
  LayoutChoice layout;
  layout.tensor = 2;
  layout.sequence_parallel = true;
  layout.data = 4;
  layout.sharding = Sharding::kZero3;
  layout.global_batch = 8;
  const auto replay = ReplayOf("llama-3.2-1b", "H100", layout);
  ASSERT_TRUE(replay.ok()) << replay.status();
  const double sum =
      std::accumulate(replay->terms.begin(), replay->terms.end(), 0.0,
                      [](double all, const auto& term) { return all + term.second; });
  EXPECT_NEAR(sum, replay->seconds, 0.01 * replay->seconds);
}

// Neither is fitted to the other: the engine's own programs, and formulas for programs of its kind.
TEST(Replay, AgreesWithTheClosedFormWhereLittleIsExposed) {
  for (const int64_t data : {1, 8}) {
    for (const Sharding sharding : {Sharding::kZero1, Sharding::kZero3}) {
      LayoutChoice layout;
      layout.data = data;
      layout.sharding = sharding;
      layout.micro_batch = 4;
      layout.global_batch = 4 * data;
      const FitModel model = *PresetModel("llama-3.1-8b");
      const TrainingShape shape = *ShapeOf(model, 4096);
      const Machine machine = On("H200");
      const RankedPlan plan = Planned(machine, shape, layout);
      const auto replay = ReplayPlan(machine, model.spec, shape, plan);
      ASSERT_TRUE(replay.ok()) << replay.status();
      EXPECT_NEAR(replay->seconds / plan.step.seconds, 1, 0.1) << data;
    }
  }
}

// Sharded gradients leave with each micro-batch; once a step is cheaper over a slow network.
TEST(Replay, InAPipelineSharedGradientsCostEveryMicroBatch) {
  LayoutChoice layout;
  layout.tensor = 8;
  layout.sequence_parallel = true;
  layout.pipeline = 2;
  layout.data = 4;
  layout.global_batch = 32;
  const auto once = ReplayOf("llama-3.1-8b", "H100", layout);
  layout.sharding = Sharding::kZero2;
  const auto each = ReplayOf("llama-3.1-8b", "H100", layout);
  ASSERT_TRUE(once.ok() && each.ok()) << once.status() << each.status();
  EXPECT_GT(each->seconds, once->seconds);
}

// Each micro-batch crosses the links once for each virtual stage, which 100 times slower links do
// not hide.
TEST(Replay, OverSlowLinksInterleavingLosesAsInTheClosedForm) {
  const FitModel model = *PresetModel("llama-3.2-1b");
  const TrainingShape shape = *ShapeOf(model, 2048);
  Machine machine = On("H100");
  machine.network.domain_devices = machine.network.node_devices = 1;
  machine.network.network_rate /= 100;
  double replayed[2], predicted[2];
  for (const int64_t chunks : {1, 4}) {
    LayoutChoice layout;
    layout.pipeline = 4;
    layout.chunks = chunks;
    layout.global_batch = 16;
    layout.sharding = Sharding::kReplicated;
    const RankedPlan plan = Planned(machine, shape, layout);
    const auto replay = ReplayPlan(machine, model.spec, shape, plan);
    ASSERT_TRUE(replay.ok()) << replay.status();
    replayed[chunks > 1] = replay->seconds;
    predicted[chunks > 1] = plan.step.seconds;
    EXPECT_NEAR(plan.step.seconds / replay->seconds, 1, 0.25) << chunks;
  }
  EXPECT_GT(replayed[1], 1.5 * replayed[0]);
  EXPECT_GT(predicted[1], 1.5 * predicted[0]);
}

TEST(Replay, WhatTheEngineCannotTrainIsSaidAndNotGuessed) {
  LayoutChoice layout;
  layout.precision = Precision::kFp8;
  EXPECT_EQ(ReplayOf("llama-3.2-1b", "H100", layout).status().code(),
            absl::StatusCode::kUnimplemented);
  layout.precision = Precision::kHalf;
  layout.global_batch = 1000;
  EXPECT_EQ(ReplayOf("llama-3.2-1b", "H100", layout).status().code(),
            absl::StatusCode::kResourceExhausted);
  layout.global_batch = 6;
  layout.tensor = 3;  // divides neither heads nor features
  EXPECT_FALSE(ReplayOf("llama-3.2-1b", "H100", layout).ok());
}

}  // namespace
}  // namespace strata::planner
