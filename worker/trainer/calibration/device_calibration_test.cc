#include "worker/trainer/calibration/device_calibration.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "device/standin/testing/cuda_test.h"
#include "planner/cost/device_cost_model.h"
#include "worker/trainer/calibration/device_calibration_testing.h"
#include "worker/trainer/calibration/reference_steps.h"

namespace strata::worker {
namespace {

using program::OpKind;
using ::testing::Contains;

class DeviceCalibrationTest : public standin::CudaTest {};

// The stand-in has one device here; a machine with several GPUs measures what passes between two.
TEST_F(DeviceCalibrationTest, EveryKindOfOpHasTimes_CopiesHaveThem_AndSoHaveSteps) {
  std::vector<std::string> told;
  const v1::DeviceProfile profile = CalibrateQuickly(told);
  std::set<std::string> kinds;
  for (const v1::OpTime& time : profile.ops()) {
    EXPECT_GT(time.seconds(), 0) << time.kind();
    kinds.insert(time.kind());
  }
  for (const OpKind kind :
       {OpKind::kMatMul, OpKind::kAttentionForward, OpKind::kAttentionBackward,
        OpKind::kRmsNormForward, OpKind::kSwigluForward, OpKind::kCrossEntropy, OpKind::kAdamW,
        OpKind::kMixedAdamW, OpKind::kLayerNormBackward, OpKind::kBiasGradient, OpKind::kSumSquares,
        OpKind::kAttentionPart, OpKind::kCrossEntropyStatistics}) {
    EXPECT_THAT(kinds, Contains(std::string(Name(kind))));
  }
  EXPECT_GE(profile.action_seconds(), 0);
  ASSERT_EQ(profile.to_device_size(), 2);
  ASSERT_EQ(profile.from_device_size(), 2);
  ASSERT_EQ(profile.both_ways_size(), 2);
  for (const auto* copies : {&profile.to_device(), &profile.from_device(), &profile.both_ways()}) {
    for (const v1::CopyTime& time : *copies) EXPECT_GT(time.seconds(), 0);
  }
  const std::string alone = "one device is here: what passes between two is not measured";
  EXPECT_EQ(profile.communications().empty(),
            std::find(told.begin(), told.end(), alone) != told.end());

  const planner::DeviceCostModel costs(profile, {});
  for (const ReferenceStep& step : StepsOfDevice(/*quick=*/true)) {
    const auto stages = ComposeTraining(step.spec);
    ASSERT_TRUE(stages.ok()) << stages.status();
    const auto timeline = program::PredictTimeline({&stages->front().set}, "train", {}, costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_GT(timeline->step_seconds, 0);
    EXPECT_TRUE(std::isfinite(timeline->step_seconds));
  }
}

}  // namespace
}  // namespace strata::worker
