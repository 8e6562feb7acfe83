// The calibrations that are shipped, and how far they carry, on the published runs.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "planner/calibration/fit.h"

namespace strata::planner {
namespace {

std::vector<MeasuredRun> RunsIn(const std::string& name) {
  const std::string path = "planner/evaluation/testdata/" + name;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto runs = ReadRuns(text.str(), path);
  EXPECT_TRUE(runs.ok()) << runs.status();
  return runs.ok() ? *std::move(runs) : std::vector<MeasuredRun>();
}

std::vector<MeasuredRun> PublishedRuns() { return RunsIn("published_runs.csv"); }

// After a change of the model: //planner/calibration:fit_profiles writes them anew.
TEST(Shipped, CalibrationsAreThoseThatAreFittedToday) {
  const Catalog& shipped = Catalog::Shipped();
  const auto& records = shipped.profiles().calibrations();
  std::vector<MeasuredRun> runs = PublishedRuns();
  for (const MeasuredRun& own : RunsIn("strata_runs.csv")) runs.push_back(own);
  const std::vector<v1::CalibrationProfile> fitted = FitAll(WithCalibrations(shipped, {}), runs);
  ASSERT_EQ(static_cast<size_t>(records.size()), fitted.size());
  for (size_t i = 0; i < fitted.size(); ++i) {
    const v1::CalibrationProfile& record = records[static_cast<int>(i)];
    const std::string name = record.gpu() + " " + record.precision() + " " + record.release();
    EXPECT_EQ(fitted[i].release(), record.release());
    const Calibration today = ToCalibration(fitted[i]), then = ToCalibration(record);
    EXPECT_NEAR(today.product, then.product, 0.005 * then.product) << name;
    EXPECT_NEAR(today.attention, then.attention, 0.005 * then.attention) << name;
    EXPECT_NEAR(today.memory, then.memory, 0.01 * then.memory) << name;
    EXPECT_NEAR(today.communication, then.communication, 0.02 * then.communication) << name;
  }
}

TEST(LeaveOneSourceOut, SourcesThatAreNotFittedArePredictedWithinSixPercentOnAverage) {
  std::map<bool, std::vector<double>> errors;  // whether in 16 bits
  for (const GroupErrors& group :
       LeaveOneSourceOut(WithCalibrations(Catalog::Shipped(), {}), PublishedRuns())) {
    errors[group.name.find(" bf16") != std::string::npos].push_back(group.errors.mean_absolute);
  }
  for (const auto& [half, means] : errors) {
    double sum = 0;
    for (const double mean : means) sum += mean;
    EXPECT_LE(sum / static_cast<double>(means.size()), 0.06) << (half ? "16 bits" : "8 and 4 bits");
  }
  EXPECT_EQ(errors.size(), 2u);
}

}  // namespace
}  // namespace strata::planner
