// Preemption, recovery and defragmentation by example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/queue/queue.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

#define EXPECT_SOUND(scene, decisions) EXPECT_EQ(Broken((scene).view, decisions), "")

TEST(Preempt, StopsLowerPriorityAndStartsWhenItIsGone) {
  Scene scene(1, 1, 4);
  scene.RunOn("low", {0});
  scene.Queue("high", 4).priority = 5;
  Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_TRUE(Preempts(decisions, "low", "high"));
  EXPECT_THAT(decisions.preemptions[0].why, HasSubstr("priority 5 over 0"));
  EXPECT_EQ(decisions.waiting.at("high").reason,
            "preempts low, which stops at its next checkpoint");
  scene.Apply(decisions);
  decisions = scene.Decide();
  EXPECT_THAT(decisions.preemptions, IsEmpty());
  EXPECT_THAT(decisions.waiting.at("high").reason, HasSubstr("low still stops"));
  scene.EndStopping();
  decisions = scene.Decide();
  EXPECT_NE(StartOf(decisions, "high"), nullptr);
  EXPECT_EQ(StartOf(decisions, "low"), nullptr);
}

TEST(Preempt, NotWhatIsOfTheSamePriorityOrWithinTheGap) {
  Scene scene(1, 1, 4);
  scene.view.policy.preemption_gap = 3;
  scene.RunOn("low", {0}).priority = 2;
  scene.Queue("same", 4).priority = 2;
  scene.Queue("within", 4).priority = 5;
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
  scene.Queue("above", 4).priority = 6;
  EXPECT_TRUE(Preempts(scene.Decide(), "low", "above"));
}

TEST(Preempt, NotWhatHasJustStarted) {
  Scene scene(1, 1, 4);
  scene.RunOn("low", {0}).started_at = scene.view.now - 29;
  scene.Queue("high", 4).priority = 5;
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
  scene.Pass(1);
  EXPECT_TRUE(Preempts(scene.Decide(), "low", "high"));
}

TEST(Preempt, NothingWhenItWouldNotFitAllTheSame) {
  Scene scene(1, 2, 4);
  scene.RunOn("low", {0});
  scene.RunOn("high", {1}).priority = 9;
  scene.Queue("a", 8).priority = 5;
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
}

TEST(Preempt, TheLeastWorkLost) {
  Scene scene(3, 1, 4);
  scene.RunOn("x", {0}).checkpoint_at = scene.view.now - 300;
  scene.RunOn("y", {1}).checkpoint_at = scene.view.now - 10;
  scene.RunOn("z", {2}).checkpoint_at = scene.view.now - 200;
  scene.Queue("high", 4).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.preemptions, SizeIs(1));
  EXPECT_TRUE(Preempts(decisions, "y", "high"));
}

TEST(Preempt, FewerVictimsWhenNoWorkIsLost) {
  Scene scene(2, 1, 4);
  scene.Run("a", {{0, 0}, {0, 1}});
  scene.Run("b", {{0, 2}, {0, 3}});
  scene.RunOn("c", {1});
  scene.Queue("high", 4, 4).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.preemptions, SizeIs(1));
  EXPECT_TRUE(Preempts(decisions, "c", "high"));
}

TEST(Preempt, TheYoungerOfEquals) {
  Scene scene(2, 1, 4);
  scene.RunOn("a", {0}).started_at = scene.view.now - 500;
  scene.RunOn("b", {1}).started_at = scene.view.now - 900;
  scene.Queue("high", 4).priority = 5;
  EXPECT_TRUE(Preempts(scene.Decide(), "a", "high"));
}

TEST(Preempt, InTheDomainWhereATensorGroupFits) {
  // Four devices are cheaper to have from two domains, but the tensor group needs one.
  Scene scene(3, 1, 4);
  scene.Run("a", {{0, 0}, {0, 1}});
  scene.Run("top0", {{0, 2}, {0, 3}}).priority = 9;
  scene.Run("b", {{1, 0}, {1, 1}});
  scene.Run("top1", {{1, 2}, {1, 3}}).priority = 9;
  scene.RunOn("c", {2}).checkpoint_at = scene.view.now - 500;
  scene.Queue("high", 4, 4).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.preemptions, SizeIs(1));
  EXPECT_TRUE(Preempts(decisions, "c", "high"));
}

TEST(Preempt, AcrossDomainsWhenNoneHoldsTheJob) {
  Scene scene(2, 1, 4);
  scene.RunOn("a", {0});
  scene.RunOn("b", {1});
  scene.Queue("high", 8).priority = 5;
  EXPECT_THAT(scene.Decide().preemptions, SizeIs(2));
}

TEST(Preempt, VictimsDevicesAreNotStolenByBackfill) {
  Scene scene(1, 2, 4);
  scene.RunOn("low", {0});
  scene.RunOn("other", {1}).priority = 9;
  scene.Queue("high", 4).priority = 5;
  scene.Queue("small", 1).seconds_left = 1;
  Decisions decisions = scene.Decide();
  ASSERT_TRUE(Preempts(decisions, "low", "high"));
  scene.Apply(decisions);
  // Half of the victim's devices are there already.
  scene.Job("low").held->ranks.resize(2);
  decisions = scene.Decide();
  EXPECT_EQ(StartOf(decisions, "small"), nullptr);
  EXPECT_EQ(StartOf(decisions, "high"), nullptr);
  EXPECT_SOUND(scene, decisions);
}

TEST(Preempt, NotForAJobOverQuota) {
  Scene scene(1, 1, 4);
  scene.view.policy.projects["p"].device_quota["h100"] = 2;
  scene.RunOn("low", {0});
  JobView& high = scene.Queue("high", 4);
  high.priority = 5;
  high.project = "p";
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
}

TEST(Preempt, NobodyWhoIsNotNeeded) {
  // The cheapest one is looked at first, but its one device makes no tensor group.
  Scene scene(1, 2, 4);
  scene.Run("cheap", {{0, 0}});
  scene.Run("top", {{0, 1}, {0, 2}, {0, 3}}).priority = 9;
  scene.RunOn("dear", {1}).checkpoint_at = scene.view.now - 500;
  scene.Queue("high", 4, 4).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.preemptions, SizeIs(1));
  EXPECT_TRUE(Preempts(decisions, "dear", "high"));
}

TEST(Preempt, BehindTheHeadNotWhatTheHeadWouldTake) {
  // The head is reserved on n0 and n1. Were the low job to leave n2, the head could start earlier,
  // on n0 and n2: the job behind it would have stopped the low one for nothing.
  Scene scene(1, 3, 4);
  for (int n = 0; n < 2; ++n) {
    JobView& other = scene.RunOn(n == 0 ? "r" : "s", {n});
    other.priority = 5;
    other.seconds_left = n == 0 ? 100 : 500;
  }
  scene.RunOn("low", {2}).seconds_left = 1000;
  scene.Queue("head", 8).priority = 5;
  scene.Queue("next", 4).priority = 4;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.waiting.at("head").reason, HasSubstr("reserved on n0, n1"));
  EXPECT_THAT(decisions.preemptions, IsEmpty());
  EXPECT_SOUND(scene, decisions);
}

TEST(Preempt, BehindTheHeadWhatTheHeadCannotUse) {
  Scene scene(1, 3, 4);
  for (int n = 0; n < 2; ++n) {
    JobView& other = scene.RunOn(n == 0 ? "r" : "s", {n});
    other.priority = 5;
    other.seconds_left = 100;
  }
  scene.RunOn("low", {2}).seconds_left = 1000;
  scene.Queue("head", 8).priority = 5;
  JobView& next = scene.Queue("next", 4);
  next.priority = 4;
  next.seconds_left = 50;
  const Decisions decisions = scene.Decide();
  EXPECT_TRUE(Preempts(decisions, "low", "next"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Recover, StaysWhereItWasWhenNoNodeIsLost) {
  Scene scene(1, 2, 2);
  scene.Recover("r", {{1, 0}, {1, 1}});
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_EQ(StartOf(decisions, "r")->placement.ranks, scene.Job("r").held->ranks);
  EXPECT_EQ(StartOf(decisions, "r")->why, "starts again where it was");
}

TEST(Recover, OnlyLostRanksMoveAndToASpareFirst) {
  Scene scene(1, 4, 1);
  scene.SetHealthy(1, false);
  scene.Recover("r", {{0, 0}, {1, 0}}).held->spares = {3};
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_THAT(StartOf(decisions, "r")->placement.ranks, ElementsAre(Device{0, 0}, Device{3, 0}));
  EXPECT_THAT(StartOf(decisions, "r")->why, HasSubstr("replaces 1 of 2 ranks: to n3"));
}

TEST(Recover, ComesBeforeQueuedJobsOfHigherPriority) {
  Scene scene(1, 3, 1);
  scene.SetHealthy(1, false);
  scene.Queue("a", 1).priority = 9;
  scene.Recover("r", {{0, 0}, {1, 0}});
  const Decisions decisions = scene.Decide();
  EXPECT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_EQ(StartOf(decisions, "a"), nullptr);
  EXPECT_SOUND(scene, decisions);
}

TEST(Recover, ShrinksAfterAWhileAndKeepsWhatIsWhole) {
  Scene scene(1, 4, 1);
  scene.SetHealthy(0, false);
  scene.Recover("r", {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  scene.ShapeOf("r").fewer_data = {2, 1};
  Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.starts, IsEmpty());
  EXPECT_FALSE(decisions.waiting.at("r").infeasible);
  scene.Pass(60);
  decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_EQ(StartOf(decisions, "r")->data, 2);
  EXPECT_THAT(StartOf(decisions, "r")->placement.ranks, ElementsAre(Device{1, 0}, Device{2, 0}));
  EXPECT_THAT(StartOf(decisions, "r")->why, HasSubstr("data 2 of 4"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Recover, AShrunkJobGrowsAgainWhenItRecoversAndThereIsRoom) {
  Scene scene(1, 4, 1);
  scene.Recover("r", {{1, 0}, {2, 0}});
  scene.ShapeOf("r").degrees[4] = 4;
  scene.ShapeOf("r").fewer_data = {2, 1};
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_EQ(StartOf(decisions, "r")->data, 4);
}

TEST(Recover, AShrunkJobRestartsShrunkAtOnceWhenThereIsNoRoom) {
  Scene scene(1, 4, 1);
  scene.Run("other", {{0, 0}, {3, 0}});
  scene.Recover("r", {{1, 0}, {2, 0}});
  scene.ShapeOf("r").degrees[4] = 4;
  scene.ShapeOf("r").fewer_data = {2, 1};
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "r"), nullptr);
  EXPECT_EQ(StartOf(decisions, "r")->data, 2);
}

TEST(Recover, MayPreempt) {
  Scene scene(1, 3, 1);
  scene.SetHealthy(1, false);
  scene.Run("low", {{2, 0}});
  scene.Recover("r", {{0, 0}, {1, 0}}).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_TRUE(Preempts(decisions, "low", "r"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Recover, OneThatMustWaitKeepsNoMoreUrgentJobFromPreempting) {
  // r lost a node and nobody may be stopped for it; the victim's devices would do for it too.
  Scene scene(1, 4, 1);
  scene.SetHealthy(1, false);
  scene.Run("low", {{2, 0}, {3, 0}}).priority = 1;
  scene.Recover("r", {{0, 0}, {1, 0}});
  scene.Queue("high", 2).priority = 5;
  const Decisions decisions = scene.Decide();
  EXPECT_TRUE(Preempts(decisions, "low", "high"));
  EXPECT_TRUE(decisions.waiting.contains("r"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Recover, KeptDevicesAreNotGivenToOthers) {
  Scene scene(1, 3, 1);
  scene.SetHealthy(1, false);
  scene.Run("other", {{2, 0}});
  scene.Recover("r", {{0, 0}, {1, 0}});
  scene.Queue("a", 1);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.starts, IsEmpty());
  EXPECT_SOUND(scene, decisions);
}

// Two nodes half used by one job each: a tensor group of four fits when one of them moves.
void Fragment(Scene& scene) {
  scene.Run("x", {{0, 0}, {0, 1}});
  scene.Run("y", {{1, 0}, {1, 1}}).checkpoint_at = scene.view.now - 100;
  scene.Queue("head", 4, 4);
}

TEST(Defragment, MovesARunningJobWhenItIsAskedFor) {
  Scene scene(2, 1, 4);
  Fragment(scene);
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
  scene.view.policy.defragment = true;
  Decisions decisions = scene.Decide();
  ASSERT_TRUE(Preempts(decisions, "x", "head"));
  EXPECT_THAT(decisions.preemptions, SizeIs(1));
  EXPECT_SOUND(scene, decisions);
  scene.Apply(decisions);
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
  scene.EndStopping();
  decisions = scene.Decide();
  EXPECT_NE(StartOf(decisions, "head"), nullptr);
  EXPECT_NE(StartOf(decisions, "x"), nullptr);
  EXPECT_SOUND(scene, decisions);
}

TEST(Defragment, NotWhenTheMovedJobHasNoOtherPlace) {
  Scene scene(2, 1, 4);
  Fragment(scene);
  scene.view.policy.defragment = true;
  scene.Run("z", {{0, 2}}).priority = 9;
  scene.Run("w", {{1, 2}}).priority = 9;
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
}

TEST(Defragment, NotJobsOfHigherPriority) {
  Scene scene(2, 1, 4);
  Fragment(scene);
  scene.view.policy.defragment = true;
  scene.Job("x").priority = 1;
  scene.Job("y").priority = 1;
  EXPECT_THAT(scene.Decide().preemptions, IsEmpty());
}

}  // namespace
}  // namespace strata::scheduler
