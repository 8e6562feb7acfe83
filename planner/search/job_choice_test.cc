#include "planner/search/job_choice.h"

#include <gtest/gtest.h>

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
  const auto machine = Catalog::Shipped().Find({.gpu = "h100"});
  const LayoutChoice layout{
      .data = 8, .sharding = Sharding::kZero3, .global_batch = 8, .recompute = Recompute::kFull};
  EXPECT_DOUBLE_EQ(StepSecondsOf(Catalog::Shipped(), request),
                   PredictStep(machine->machine, *ShapeOf(request.model, 4096), layout).seconds);
}

TEST(JobChoiceTest, ShardGroupOfAJob_IsItsLayouts) {
  FitRequest request = On("h100", Method::kMixed);
  ShareAmong(64, request);
  request.job.mutable_parallel()->set_shard_group(8);
  const auto machine = Catalog::Shipped().Find({.gpu = "h100"});
  const LayoutChoice layout{
      .data = 64, .replicas = 8, .sharding = Sharding::kZero3, .global_batch = 64};
  EXPECT_DOUBLE_EQ(StepSecondsOf(Catalog::Shipped(), request),
                   PredictStep(machine->machine, *ShapeOf(request.model, 4096), layout).seconds);
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
