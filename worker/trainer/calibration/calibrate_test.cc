#include "worker/trainer/calibration/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "planner/cost/profile_cost_model.h"
#include "program/passes/expand.h"
#include "worker/trainer/calibration/reference_steps.h"

namespace strata::worker {
namespace {

// Both ranks as threads.
v1::Profile CalibrateQuickly(std::vector<std::string>& told) {
  const auto world = collectives::LoopbackWorld(2, 64, {});
  CalibrateOptions options{.quick = true};
  absl::StatusOr<v1::Profile> other = absl::UnknownError("not run");
  std::thread second([&] { other = Calibrate(*world[1], options); });
  CalibrateOptions telling = options;
  telling.tell = [&](const std::string& text) { told.push_back(text); };
  const absl::StatusOr<v1::Profile> profile = Calibrate(*world[0], telling);
  second.join();
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->ranks_size(), 0);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *profile;
}

TEST(CalibrateTest, MeasuresOneRankAndTwo_AndEveryKindOfOpThatTheirLayoutsHave) {
  std::vector<std::string> told;
  const v1::Profile profile = CalibrateQuickly(told);
  EXPECT_EQ(told.size(), 2u);
  ASSERT_EQ(profile.ranks_size(), 2);
  EXPECT_GT(profile.host_copy_rate(), 0);
  const v1::RankProfile &one = profile.ranks(0), &two = profile.ranks(1);
  EXPECT_EQ(one.ranks(), 1);
  EXPECT_EQ(two.ranks(), 2);
  std::set<std::string> kinds, operations;
  for (const v1::RankProfile* ranks : {&one, &two}) {
    for (const v1::OpTime& time : ranks->ops()) {
      EXPECT_GT(time.seconds(), 0) << time.kind();
      kinds.insert(time.kind());
    }
  }
  for (const program::OpKind kind :
       {program::OpKind::kMatMul, program::OpKind::kAdamW, program::OpKind::kAttentionBackward,
        program::OpKind::kAttentionPart, program::OpKind::kCrossEntropyFinish}) {
    EXPECT_TRUE(kinds.contains(Name(kind))) << Name(kind);
  }
  for (const v1::CommunicationTime& time : two.communications()) {
    EXPECT_GT(time.seconds(), 0) << time.op();
    operations.insert(time.op());
  }
  EXPECT_EQ(operations.size(), 8u);
  EXPECT_EQ(one.communications_size(), 0);
  for (const v1::Interference& each : two.interference()) {
    EXPECT_GE(each.compute_lost(), 0);
    EXPECT_LT(each.compute_lost(), 1);
    EXPECT_GE(each.communication_stretch(), 1);
    EXPECT_TRUE(operations.contains(each.op())) << each.op();
  }
  EXPECT_EQ(two.interference_size(), 4 * 3);
  EXPECT_GE(two.drift(), 0);
  EXPECT_TRUE(std::isfinite(two.drift()));
  EXPECT_EQ(one.drift(), 0);
}

TEST(CalibrateTest, TheTimelineHasATimeForEveryStepThatWasMeasured) {
  std::vector<std::string> told;
  const v1::Profile profile = CalibrateQuickly(told);
  const planner::ProfileCostModel costs(profile.ranks(1));
  for (const ReferenceStep& step : StepsOfTwoRanks(1, /*quick=*/true)) {
    const auto stages = ComposeTraining(step.spec);
    ASSERT_TRUE(stages.ok()) << stages.status();
    std::vector<const program::ProgramSet*> sets;
    for (const program::StagePrograms& stage : *stages) sets.push_back(&stage.set);
    const auto timeline =
        program::PredictTimeline(sets, "train", {.sizes = step.spec.plan.groups}, costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_GT(timeline->step_seconds, 0);
    EXPECT_TRUE(std::isfinite(timeline->step_seconds));
  }
}

// Nothing but a GPU runs them: that they can be made at all is seen here.
TEST(ReferenceStepsTest, StepsOfDevicesCompose_AndFitIntoASmallCard) {
  constexpr int64_t kSmallCard = int64_t{20} << 30;
  std::vector<ReferenceStep> steps = StepsOfDevice(/*quick=*/false);
  for (ReferenceStep& step : StepsOfTwoDevices(/*quick=*/false)) steps.push_back(std::move(step));
  for (const ReferenceStep& step : steps) {
    const auto stages = ComposeTraining(step.spec);
    ASSERT_TRUE(stages.ok()) << stages.status();
    const program::ProgramSet& set = stages->front().set;
    EXPECT_LT(set.arena(program::Tier::kDevice), kSmallCard) << step.spec.model.hidden;
    EXPECT_GT(program::Expand(set, set.programs[0]).actions.size(), 20u);
  }
}

}  // namespace
}  // namespace strata::worker
