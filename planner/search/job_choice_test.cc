#include "planner/search/job_choice.h"

#include <gtest/gtest.h>

#include <tuple>

#include "planner/fit/fit_testing.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {
namespace {

FitRequest On(const char* device, Method method) {
  return RequestOf("llama-3.1-8b", method, *DeviceOf(device, 0), 4096);
}

TEST(JobChoiceTest, JobOnAKnownCard_TakesWhatTheModelPredictsOfItsLayout) {
  FitRequest request = On("h100", Method::kMixed);
  ShareAmong(8, request);
  RecomputeAll(request);
  const auto machine = Catalog::Shipped().Find({.gpu = "h100", .framework = kOwnFramework});
  const LayoutChoice layout{
      .data = 8, .sharding = Sharding::kZero3, .global_batch = 8, .recompute = Recompute::kFull};
  EXPECT_DOUBLE_EQ(StepSecondsOf(Catalog::Shipped(), request),
                   PredictStep(machine->machine, *ShapeOf(request.model, 4096), layout).seconds);
}

TEST(JobChoiceTest, ShardGroupOfAJob_IsItsLayouts) {
  FitRequest request = On("h100", Method::kMixed);
  ShareAmong(64, request);
  request.job.mutable_parallel()->set_shard_group(8);
  const auto machine = Catalog::Shipped().Find({.gpu = "h100", .framework = kOwnFramework});
  const LayoutChoice layout{
      .data = 64, .replicas = 8, .sharding = Sharding::kZero3, .global_batch = 64};
  EXPECT_DOUBLE_EQ(StepSecondsOf(Catalog::Shipped(), request),
                   PredictStep(machine->machine, *ShapeOf(request.model, 4096), layout).seconds);
}

// AdamW on 32-bit states moves 34 bytes a parameter, with the smallest formats 16.
TEST(JobChoiceTest, UpdatesMoveWhatTheOptimizersFormatsSay) {
  FitRequest request = On("h200", Method::kMixed);
  const auto bytes = [&] {
    return ChoiceOf(Catalog::Shipped(), request.model, request.job, "h200")->layout.update_bytes;
  };
  EXPECT_EQ(bytes(), 34);
  v1::OptimizerSpec& optimizer = *request.job.mutable_train()->mutable_optimizer();
  optimizer.set_master(v1::OptimizerSpec::MASTER_SPLIT);
  EXPECT_EQ(bytes(), 32);
  optimizer.set_state(v1::OptimizerSpec::STATE_8BIT);
  optimizer.set_gradient(v1::OptimizerSpec::GRADIENT_BF16);
  EXPECT_EQ(bytes(), 16);
  optimizer.set_name(v1::OptimizerSpec::NAME_SGD);
  EXPECT_EQ(bytes(), 14);
  EXPECT_LT(PredictStep(ChoiceOf(Catalog::Shipped(), request.model, request.job, "h200")->machine,
                        *ShapeOf(request.model, 4096), {.update_bytes = 14})
                .seconds,
            StepSecondsOf(Catalog::Shipped(), On("h200", Method::kMixed)));
}

TEST(JobChoiceTest, AJobOfALayout_HasThatLayout) {
  const FitModel model = *PresetModel("llama-3.1-8b");
  const TrainingShape shape = *ShapeOf(model, 4096);
  for (const LayoutChoice& layout :
       {LayoutChoice{.sharding = Sharding::kReplicated},
        LayoutChoice{.tensor = 4, .data = 2, .sequence_parallel = true, .global_batch = 8},
        LayoutChoice{.pipeline = 2, .chunks = 4, .data = 8, .replicas = 2, .global_batch = 16},
        LayoutChoice{.context = 2, .sharding = Sharding::kZero3, .recompute = Recompute::kFull},
        LayoutChoice{.micro_batch = 2, .global_batch = 4, .recompute = Recompute::kSelective},
        LayoutChoice{.recompute = Recompute::kListed, .saved = kAllValues, .listed_layers = 12},
        LayoutChoice{.recompute = Recompute::kListed,
        .saved = kNoValues.with(SavedValue::kUp).with(SavedValue::kQkv)},
        LayoutChoice{.precision = Precision::kFp32, .offload = Offload::kOptimizer},
        LayoutChoice{.offload = Offload::kAll, .unified = true}}) {
    const auto choice = ChoiceOf(Catalog::Shipped(), model, JobOf(shape, layout), "h100");
    ASSERT_TRUE(choice.has_value());
    const LayoutChoice& back = choice->layout;
    const auto degrees = [](const LayoutChoice& l) {
      return std::tuple(l.tensor, l.pipeline, l.chunks, l.context, l.data, l.replicas, l.sharding,
                        l.sequence_parallel, l.micro_batch, l.global_batch, l.recompute, l.saved,
                        l.listed_layers, l.precision, l.offload, l.unified);
    };
    EXPECT_EQ(degrees(back), degrees(layout));
  }
}

TEST(JobChoiceTest, WhatTheModelDoesNotKnow_HasNoSeconds) {
  const Catalog& catalog = Catalog::Shipped();
  EXPECT_LT(StepSecondsOf(catalog, On("cpu", Method::kMixed)), 0);
  EXPECT_LT(StepSecondsOf(catalog, On("h100", Method::kLora)), 0);
  EXPECT_LT(StepSecondsOf(catalog, On("h100", Method::kInference)), 0);
  FitRequest away = On("h100", Method::kMixed);
  away.job.mutable_memory()->mutable_place()->mutable_parameters()->set_host(1);
  EXPECT_LT(StepSecondsOf(catalog, away), 0);
  EXPECT_FALSE(ShapeOf(*PresetModel("bert-base"), 512).has_value());
}

}  // namespace
}  // namespace strata::planner
