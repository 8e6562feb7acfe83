#include "controller/logic/plan_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TwoNodes;

v1::StepRecord Record(int64_t number, double seconds, double predicted) {
  v1::StepRecord step;
  step.set_step(number);
  step.set_seconds(seconds);
  if (predicted > 0) step.set_predicted_seconds(predicted);
  return step;
}

TEST(PlanFamilies, TheNewestCountsForHalf) {
  PlanFamilies families;
  Effects effects;
  families.Learn({"w", "l"}, {.ratio = 4, .steps = 16}, 5, effects);
  EXPECT_EQ(families.all().at({"w", "l"}).ratio(), 4);
  families.Learn({"w", "l"}, {.ratio = 1, .steps = 16}, 6, effects);
  EXPECT_EQ(families.all().at({"w", "l"}).ratio(), 2);
  EXPECT_EQ(families.all().at({"w", "l"}).steps(), 32);
  EXPECT_THAT(families.all(), SizeIs(1));
  PlanFamilies restored;
  ASSERT_TRUE(restored.Restore(effects.writes.back()));
  EXPECT_EQ(restored.all().at({"w", "l"}).SerializeAsString(),
            families.all().at({"w", "l"}).SerializeAsString());
  EXPECT_FALSE(restored.Restore({PlanFamilies::kTable, "w; l", "\xff"}));
  EXPECT_FALSE(restored.Restore({PlanFamilies::kTable, "w; m", effects.writes.back().value}));
}

TEST(PlanFamilies, TheOneThatWasNotHeardOfForLongestMakesRoom) {
  PlanFamilies families;
  Effects effects;
  for (size_t i = 0; i < PlanFamilies::kMost; ++i) {
    families.Learn({"w", absl::StrCat(i)}, {.ratio = 1, .steps = 16}, 100.0 + (i + 250) % 256,
                   effects);
  }
  effects = {};
  families.Learn({"w", "new"}, {.ratio = 1, .steps = 16}, 1000, effects);
  EXPECT_THAT(families.all(), SizeIs(PlanFamilies::kMost));
  EXPECT_FALSE(families.all().contains({"w", "6"}));
  ASSERT_THAT(effects.writes, SizeIs(2));
  EXPECT_TRUE(effects.writes[0].erase);
  EXPECT_EQ(effects.writes[0].key, "w; 6");
}

class Learning : public TwoNodes {
 protected:
  void Step(const std::string& node, int64_t number, double seconds, double predicted) {
    v1::AgentMessage message;
    v1::EpochProgress& progress = *message.mutable_progress();
    progress.mutable_epoch()->set_job("jobs/a");
    progress.mutable_epoch()->set_epoch(1);
    *progress.mutable_progress()->mutable_step() = Record(number, seconds, predicted);
    h.Say(node, std::move(message));
  }
};

TEST_F(Learning, StepsOfAJobAreComparedAndSurviveTheController) {
  h.Run("a", {"n0", "n1"});
  for (int64_t step = 1; step <= 16; ++step) Step("n0", step, 3, 2);
  EXPECT_THAT(h.core->plan_families().all(), SizeIs(0));
  Step("n0", 17, 3, 2);
  ASSERT_THAT(h.core->plan_families().all(), SizeIs(1));
  const v1::PlanFamily learned = h.core->plan_families().all().begin()->second;
  EXPECT_EQ(learned.ratio(), 1.5);
  EXPECT_THAT(learned.workload(), HasSubstr(", cpu"));
  h.RestartController();
  ASSERT_THAT(h.core->plan_families().all(), SizeIs(1));
  EXPECT_EQ(h.core->plan_families().all().begin()->second.SerializeAsString(),
            learned.SerializeAsString());
}

TEST_F(Learning, NothingIsWrittenOfStepsThatNobodyPredicted) {
  h.Run("a", {"n0", "n1"});
  for (int64_t step = 1; step <= 40; ++step) Step("n0", step, 3, 0);
  EXPECT_THAT(h.core->plan_families().all(), SizeIs(0));
  for (const auto& [key, write] : h.records) EXPECT_NE(key.first, PlanFamilies::kTable);
}

}  // namespace
}  // namespace strata::controller
