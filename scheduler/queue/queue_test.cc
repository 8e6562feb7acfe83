// Order, gangs, quotas, reservation and backfill by example.
#include "scheduler/queue/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/order.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Started(const Decisions& decisions) {
  std::vector<std::string> names;
  for (const Start& start : decisions.starts) names.push_back(start.job);
  return names;
}

#define EXPECT_SOUND(scene, decisions) EXPECT_EQ(Broken((scene).view, decisions), "")

TEST(Decide, WithoutJobsDoesNothing) {
  Scene scene(1, 2, 4);
  const Decisions decisions = scene.Decide();
  EXPECT_TRUE(decisions.starts.empty());
  EXPECT_TRUE(decisions.waiting.empty());
}

TEST(Order, HigherPriorityFirstThenSubmission) {
  Scene scene(1, 4, 1);
  scene.Queue("a", 1);
  scene.Queue("b", 1).priority = 5;
  scene.Queue("c", 1);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("b", "a", "c"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Order, QueuesPriorityIsAdded) {
  Scene scene(1, 1, 1);
  scene.view.policy.queues["fast"].priority = 10;
  scene.Queue("a", 1).priority = 5;
  scene.Queue("b", 1).queue = "fast";
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("b"));
  EXPECT_THAT(decisions.waiting.at("a").starts_when, HasSubstr("b"));
}

TEST(Order, WhoMadeRoomForAnotherComesAfterIt) {
  Scene scene(1, 1, 1);
  scene.Queue("a", 1).preempted_by = "c";
  scene.Queue("b", 1);
  scene.Queue("c", 1);
  scene.Queue("d", 1).preempted_by = "gone";
  std::vector<std::string> names;
  for (const Candidate& candidate : InOrder(scene.Now())) names.push_back(candidate.job->name);
  EXPECT_THAT(names, ElementsAre("b", "c", "a", "d"));
}

TEST(Order, PreemptedInACircleStillHasAnOrder) {
  Scene scene(1, 1, 1);
  scene.Queue("a", 1).preempted_by = "b";
  scene.Queue("b", 1).preempted_by = "a";
  std::vector<std::string> names;
  for (const Candidate& candidate : InOrder(scene.Now())) names.push_back(candidate.job->name);
  EXPECT_THAT(names, ElementsAre("b", "a"));
}

TEST(Order, OfTheViewDoesNotMatter) {
  Scene scene(2, 2, 4);
  for (int i = 0; i < 8; ++i) {
    JobView& job = scene.Queue(absl::StrCat("j", i), 3 + i % 3);
    job.priority = i % 3;
    job.seconds_left = 10.0 * i;
  }
  const Decisions one = scene.Decide();
  std::reverse(scene.view.jobs.begin(), scene.view.jobs.end());
  const Decisions other = scene.Decide();
  EXPECT_EQ(Started(one), Started(other));
  for (const auto& [name, waiting] : one.waiting) {
    EXPECT_EQ(waiting.reason, other.waiting.at(name).reason);
  }
}

TEST(Gang, StartsWithAllRanksOrNotAtAll) {
  Scene scene(1, 2, 4);
  scene.Run("r", {{0, 0}});
  scene.Queue("a", 8);
  const Decisions decisions = scene.Decide();
  EXPECT_TRUE(decisions.starts.empty());
  EXPECT_THAT(decisions.waiting.at("a").reason, HasSubstr("needs 8 h100 devices, 7 are free"));
  EXPECT_SOUND(scene, decisions);
}

TEST(Gang, SparesNeverMakeAFittingJobWait) {
  Scene scene(1, 2, 4);
  scene.Queue("a", 8);
  scene.ShapeOf("a").spares = 1;
  const Decisions decisions = scene.Decide();
  ASSERT_THAT(Started(decisions), ElementsAre("a"));
  EXPECT_TRUE(decisions.starts[0].placement.spares.empty());
}

TEST(Gang, SpareNodesAreLeftWhereOthersAreFree) {
  Scene scene(1, 3, 4);
  scene.RunOn("r", {0}).held->spares = {1};
  scene.Queue("a", 4);
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  EXPECT_THAT(NodesOf(StartOf(decisions, "a")->placement), ElementsAre(2));
}

TEST(Gang, SpareNodesAreTakenBeforeAJobWaits) {
  Scene scene(1, 3, 4);
  scene.RunOn("r", {0}).held->spares = {1};
  scene.Queue("a", 8);
  const Decisions decisions = scene.Decide();
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  EXPECT_THAT(NodesOf(StartOf(decisions, "a")->placement), ElementsAre(1, 2));
}

TEST(Quota, OverQuotaWaitsAndBlocksNobody) {
  Scene scene(1, 4, 4);
  scene.view.policy.projects["p"].device_quota["h100"] = 8;
  scene.RunOn("r", {0, 1}).project = "p";
  JobView& a = scene.Queue("a", 4);
  a.project = "p";
  a.priority = 9;
  scene.Queue("b", 8);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("b"));
  EXPECT_EQ(decisions.waiting.at("a").reason,
            "over quota of project p: 8 of 8 h100 devices used, needs 4");
  EXPECT_SOUND(scene, decisions);
}

TEST(Quota, StoppingAndRecoveringJobsCount) {
  Scene scene(1, 4, 4);
  scene.view.policy.projects["p"].device_quota["*"] = 8;
  JobView& stopping = scene.RunOn("s", {0});
  stopping.project = "p";
  stopping.phase = JobPhase::kStopping;
  JobView& recovering = scene.Recover("r", {{1, 0}, {1, 1}, {1, 2}, {1, 3}});
  recovering.project = "p";
  scene.Queue("a", 1).project = "p";
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("r"));
  EXPECT_THAT(decisions.waiting.at("a").reason, HasSubstr("8 of 8 devices used"));
}

TEST(Quota, StartsOfTheSameDecisionCount) {
  Scene scene(1, 4, 4);
  scene.view.policy.queues["q"].max_devices = 6;
  for (const char* name : {"a", "b", "c"}) scene.Queue(name, 3).queue = "q";
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("a", "b"));
  EXPECT_EQ(decisions.waiting.at("c").reason,
            "over quota of queue q: 6 of 6 devices used, needs 3");
}

TEST(Quota, AnyGpuTakesTheKindThatIsLeft) {
  Scene scene(2, 1, 4);
  scene.SetKind(1, "a100");
  scene.view.policy.projects["p"].device_quota["a100"] = 0;
  scene.Queue("a", 4).project = "p";
  scene.ShapeOf("a").device = "gpu";
  const Decisions decisions = scene.Decide();
  ASSERT_THAT(Started(decisions), ElementsAre("a"));
  EXPECT_EQ(decisions.starts[0].placement.kind, "h100");
}

TEST(Backfill, StartsWhatEndsBeforeTheReservation) {
  Scene scene(1, 2, 4);
  scene.RunOn("r", {0}).seconds_left = 100;
  scene.Queue("head", 8);
  scene.Queue("short", 2).seconds_left = 90;
  scene.Queue("long", 2).seconds_left = 110;
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("short"));
  EXPECT_THAT(decisions.starts[0].why, HasSubstr("backfilled before head: ends before"));
  EXPECT_THAT(decisions.waiting.at("head").reason, HasSubstr("reserved on n0, n1"));
  EXPECT_THAT(decisions.waiting.at("head").starts_when,
              HasSubstr("r (4 devices, ~1 min 40 s left) ends"));
  EXPECT_EQ(decisions.waiting.at("long").reason,
            "behind head (priority 0), which is reserved on n0, n1");
  EXPECT_SOUND(scene, decisions);
}

TEST(Backfill, StartsWhatDoesNotTouchTheReservation) {
  Scene scene(2, 1, 4);
  scene.Run("r", {{0, 0}}).seconds_left = 100;
  scene.Run("s", {{1, 0}}).seconds_left = 1000;
  scene.Queue("head", 4, 4);  // one tensor group: n0, when r has ended
  scene.Queue("long", 3);     // does not outlive anything: unknown
  const Decisions decisions = scene.Decide();
  ASSERT_THAT(Started(decisions), ElementsAre("long"));
  EXPECT_THAT(NodesOf(decisions.starts[0].placement), ElementsAre(1));
  EXPECT_THAT(decisions.starts[0].why, HasSubstr("beside what is reserved"));
}

TEST(Backfill, UnknownDurationsCountAsThePolicySays) {
  Scene scene(1, 2, 4);
  scene.view.policy.unknown_run_seconds = 2000;
  scene.RunOn("r", {0});  // 1000 s ago
  scene.Queue("head", 8);
  scene.Queue("short", 2).seconds_left = 900;
  scene.Queue("unknown", 2);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("short"));
}

TEST(Backfill, InfeasibleJobsHoldNoReservation) {
  Scene scene(1, 2, 4);
  scene.RunOn("r", {0});
  scene.Queue("huge", 9);
  scene.Queue("long", 4);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("long"));
  EXPECT_TRUE(decisions.waiting.at("huge").infeasible);
}

TEST(Backfill, InfeasibleJobsBehindTheHeadAreToldSo) {
  Scene scene(1, 2, 4);
  scene.RunOn("r", {0});
  scene.Queue("head", 8);
  scene.Queue("huge", 9);
  const Decisions decisions = scene.Decide();
  EXPECT_FALSE(decisions.waiting.at("head").infeasible);
  EXPECT_TRUE(decisions.waiting.at("huge").infeasible);
}

TEST(Backfill, JobsThatWaitForNodesHoldNoReservation) {
  Scene scene(1, 2, 4);
  scene.SetHealthy(1, false);
  scene.Queue("head", 8);
  scene.Queue("long", 4);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(Started(decisions), ElementsAre("long"));
  EXPECT_FALSE(decisions.waiting.at("head").infeasible);
}

TEST(Quota, AJobThatAloneIsMoreThanItsQueueMayHaveNeverStarts) {
  Scene scene(1, 2, 4);
  scene.view.policy.queues["small"].max_devices = 4;
  scene.Queue("large", 8).queue = "small";
  scene.Queue("fits", 4).queue = "small";
  const Decisions decisions = scene.Decide();
  EXPECT_NE(StartOf(decisions, "fits"), nullptr);
  const Waiting& waiting = decisions.waiting.at("large");
  EXPECT_EQ(waiting.reason, "needs 8 devices, and queue small has 4 at most");
  EXPECT_THAT(waiting.starts_when, HasSubstr("never as it is"));
  EXPECT_TRUE(waiting.infeasible);
}

TEST(Backfill, DevicesOfUnhealthyNodesAreNotReserved) {
  Scene scene(1, 3, 4);
  scene.RunOn("r", {0}).seconds_left = 10;
  scene.RunOn("s", {1}).seconds_left = 1000;
  scene.SetHealthy(0, false);
  scene.Queue("head", 8);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.waiting.at("head").reason, HasSubstr("reserved on n1, n2"));
}

TEST(Backfill, AStreamOfSmallJobsDoesNotStarveABigOne) {
  Scene scene(1, 4, 1);
  for (int i = 0; i < 4; ++i) scene.Run(absl::StrCat("r", i), {{i, 0}}).seconds_left = 10 + i;
  scene.Queue("big", 4).seconds_left = 50;
  double started = 0;
  for (int i = 0; i < 200 && started == 0; ++i) {
    scene.Queue(absl::StrCat("small", i), 1).seconds_left = 7;
    const Decisions decisions = scene.Decide();
    EXPECT_SOUND(scene, decisions);
    if (StartOf(decisions, "big") != nullptr) started = scene.view.now;
    scene.Apply(decisions);
    scene.Pass(1);
    std::erase_if(scene.view.jobs, [](const JobView& job) {
      return job.phase == JobPhase::kRunning && *job.seconds_left <= 0;
    });
  }
  EXPECT_EQ(started, 10'013);  // when the last of those before it has ended
}

TEST(Backfill, TheWholeQueueIsNotLookedAtWhenNothingIsFree) {
  Scene scene(1, 1, 4);
  scene.RunOn("r", {0});
  for (int i = 0; i < 1000; ++i) scene.Queue(absl::StrCat("j", i), 4);
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_EQ(decisions.waiting.size(), 1000u);
}

}  // namespace
}  // namespace strata::scheduler
