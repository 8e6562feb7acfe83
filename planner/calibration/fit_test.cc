#include "planner/calibration/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strata::planner {
namespace {

// Runs of a model on H100 by batch and tensor degree, measured as `truth` predicts.
std::vector<MeasuredRun> RunsOf(const Calibration& truth) {
  std::vector<MeasuredRun> runs;
  for (const int64_t tensor : {1, 2, 4, 8}) {
    for (const int64_t batch : {64, 256}) {
      MeasuredRun run;
      run.id = "made-" + std::to_string(100 + runs.size());
      run.source = "made";
      run.devices = 64;
      run.machine = {.gpu = "H100", .release = "made", .framework = "NeMo"};
      run.shape = {32, 4096, 32, 8, 128, 14336, true, 128256, batch == 64 ? 8192 : 2048};
      run.layout.tensor = tensor;
      run.layout.data = 64 / tensor;
      run.layout.sequence_parallel = true;
      run.layout.global_batch = batch;
      run.direct = true;
      Machine machine = Catalog::Shipped().Find(run.machine)->machine;
      machine.calibration = truth;
      run.seconds = PredictRunOn(machine, run).seconds;
      runs.push_back(run);
    }
  }
  return runs;
}

std::vector<FittedRun> Fitted(const std::vector<MeasuredRun>& runs) {
  std::vector<FittedRun> fitted;
  for (const MeasuredRun& run : runs) {
    fitted.push_back({&run, Catalog::Shipped().Find(run.machine)->machine, 1});
  }
  return fitted;
}

TEST(Fit, RunsThatFollowTheModelArePredictedAfterwards) {
  Calibration truth;
  truth.product = 0.65;
  truth.memory = 0.6;
  const std::vector<MeasuredRun> runs = RunsOf(truth);
  const Calibration fitted = FitCalibration(Fitted(runs), Calibration());
  EXPECT_NEAR(fitted.product, truth.product, 0.03);
  for (FittedRun& run : Fitted(runs)) {
    Machine machine = run.machine;
    machine.calibration = fitted;
    EXPECT_NEAR(PredictRunOn(machine, *run.run).seconds / *run.run->seconds, 1, 0.02);
  }
}

TEST(Fit, AnOutlierHardlyMovesIt) {
  std::vector<MeasuredRun> runs = RunsOf(Calibration());
  const Calibration plain = FitCalibration(Fitted(runs), Calibration());
  runs[3].seconds = 3 * *runs[3].seconds;
  const Calibration moved = FitCalibration(Fitted(runs), Calibration());
  EXPECT_NEAR(moved.product / plain.product, 1, 0.03);
}

TEST(Fit, WhatRunsDoNotShowStaysAtThePrior) {
  std::vector<MeasuredRun> runs = RunsOf(Calibration());
  runs.resize(1);  // one node's worth says nothing of stragglers
  runs[0].layout.data = runs[0].devices = 1;
  runs[0].layout.tensor = 1;
  const Calibration fitted = FitCalibration(Fitted(runs), Calibration());
  EXPECT_DOUBLE_EQ(fitted.straggler, Calibration().straggler);
}

TEST(FitAll, GivesOneRecordForAnyReleaseAndOnePerRelease) {
  const std::vector<v1::CalibrationProfile> records =
      FitAll(Catalog::Shipped(), RunsOf(Calibration()));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].release(), "");
  EXPECT_EQ(records[1].release(), "made");
  EXPECT_EQ(records[1].family(), "nemo");
  ASSERT_EQ(records[1].rows().size(), 1);
  EXPECT_EQ(records[1].rows(0), "made-100..made-107");
}

TEST(FitAll, RunsOfAProgramThatAnswersForItselfAloneMoveNoOther) {
  const Catalog& shipped = Catalog::Shipped();
  std::vector<MeasuredRun> own = RunsOf(Calibration());
  for (MeasuredRun& run : own) {
    run.source = run.machine.release = "strata-made";
    run.machine.framework = kOwnFramework;
    *run.seconds *= 3;
  }
  std::vector<MeasuredRun> all = RunsOf(Calibration());
  const std::vector<v1::CalibrationProfile> without = FitAll(shipped, all);
  all.insert(all.end(), own.begin(), own.end());
  const std::vector<v1::CalibrationProfile> with = FitAll(shipped, all);
  ASSERT_EQ(with.size(), without.size() + 1);
  EXPECT_EQ(with.back().release(), "strata-made");
  EXPECT_EQ(with.back().family(), "strata");
  for (size_t i = 0; i < without.size(); ++i) {
    EXPECT_EQ(with[i].SerializeAsString(), without[i].SerializeAsString());
  }
  // Alone it makes nothing that answers for any release.
  const std::vector<v1::CalibrationProfile> alone = FitAll(shipped, own);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].release(), "strata-made");
}

TEST(FitAll, TheSameRunsGiveTheSameRecords) {
  const std::vector<MeasuredRun> runs = RunsOf(Calibration());
  const auto once = FitAll(Catalog::Shipped(), runs), again = FitAll(Catalog::Shipped(), runs);
  ASSERT_EQ(once.size(), again.size());
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].SerializeAsString(), again[i].SerializeAsString());
  }
}

TEST(FitAll, RunsWithoutDirectSecondsAreLeftOut) {
  std::vector<MeasuredRun> runs = RunsOf(Calibration());
  for (MeasuredRun& run : runs) run.direct = false;
  EXPECT_TRUE(FitAll(Catalog::Shipped(), runs).empty());
}

}  // namespace
}  // namespace strata::planner
