// The buffer by example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/queue/queue.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

#define EXPECT_SOUND(scene, decisions) EXPECT_EQ(Broken((scene).view, decisions), "")

// Two domains of two nodes of four devices; one node of each domain is held back.
class BufferTest : public testing::Test {
 protected:
  BufferTest() : scene(2, 2, 4) {
    scene.view.policy.buffer = {.level = "domain", .nodes = 1};
    scene.view.policy.queues["batch"].preemptible = true;
  }
  JobView& Batch(JobView& job) {
    job.queue = "batch";
    return job;
  }

  Scene scene;
};

TEST_F(BufferTest, AStartLeavesItWhole) {
  scene.Queue("a", 8);
  scene.Queue("b", 4);
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  EXPECT_THAT(NodesOf(StartOf(decisions, "a")->placement), ElementsAre(0, 2));
  EXPECT_THAT(decisions.waiting.at("b").reason,
              HasSubstr("; 8 more are held back by scheduling.buffer"));
  EXPECT_THAT(BufferOf(scene.Now()).free, ElementsAre(1, 3));
}

TEST_F(BufferTest, AJobThatNeverFitsBesideItIsToldSo) {
  scene.Queue("a", 12);
  const Decisions decisions = scene.Decide();
  EXPECT_THAT(decisions.waiting.at("a").reason, HasSubstr("8 are free: n1 is held back, n3 is"));
  EXPECT_THAT(decisions.waiting.at("a").starts_when, HasSubstr("scheduling.buffer"));
  EXPECT_FALSE(decisions.waiting.at("a").infeasible);
}

TEST_F(BufferTest, LostRanksTakeIt) {
  scene.SetHealthy(0, false);
  scene.Recover("a", {{0, 0}, {0, 1}, {0, 2}, {0, 3}});
  scene.RunOn("b", {2, 3});
  scene.Queue("c", 4);
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  EXPECT_THAT(NodesOf(StartOf(decisions, "a")->placement), ElementsAre(1));
  EXPECT_EQ(StartOf(decisions, "c"), nullptr);
}

TEST_F(BufferTest, WhatComesFreeFillsItFirst) {
  scene.RunOn("a", {0});
  scene.RunOn("b", {1});
  scene.RunOn("c", {2, 3});
  scene.Queue("d", 4);
  EXPECT_EQ(BufferOf(scene.Now()).missing, 2);
  scene.End("b");
  EXPECT_EQ(StartOf(scene.Decide(), "d"), nullptr);
  scene.End("a");
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "d"), nullptr);
  EXPECT_EQ(BufferOf(scene.Now()).missing, 1);
}

TEST_F(BufferTest, PreemptibleJobsBorrowIt) {
  Batch(scene.Queue("a", 16));
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  scene.Apply(decisions);
  const BufferNodes buffer = BufferOf(scene.Now());
  EXPECT_THAT(buffer.lent, ElementsAre(1, 3));
  EXPECT_THAT(buffer.free, IsEmpty());
  EXPECT_EQ(buffer.missing, 0);
}

TEST_F(BufferTest, AJobThatSaysSoItselfBorrowsItFromAnyQueue) {
  scene.Queue("a", 16);
  EXPECT_EQ(StartOf(scene.Decide(), "a"), nullptr);
  scene.Job("a").preemptible = true;
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  scene.Apply(decisions);
  EXPECT_THAT(BufferOf(scene.Now()).lent, ElementsAre(1, 3));
}

TEST_F(BufferTest, AJobThatSaysSoItselfGivesItBackAsThoseOfItsQueueWould) {
  scene.SetHealthy(0, false);
  scene.Recover("lost", {{0, 0}, {0, 1}, {0, 2}, {0, 3}});
  scene.RunOn("borrower", {1}).preemptible = true;
  scene.RunOn("other", {2, 3}).priority = -1;
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_TRUE(Preempts(decisions, "borrower", "lost"));
  EXPECT_FALSE(Preempts(decisions, "other", "lost"));
}

TEST_F(BufferTest, BorrowersAreStoppedFirstAndWhateverTheirPriority) {
  scene.SetHealthy(0, false);
  scene.Recover("a", {{0, 0}, {0, 1}, {0, 2}, {0, 3}}).priority = 1;
  JobView& borrower = Batch(scene.RunOn("borrower", {1}));
  borrower.priority = 9;
  borrower.started_at = scene.view.now - 1;
  scene.RunOn("low", {2, 3});
  Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_TRUE(Preempts(decisions, "borrower", "a"));
  EXPECT_FALSE(Preempts(decisions, "low", "a"));
  EXPECT_THAT(decisions.preemptions[0].why, HasSubstr("had borrowed nodes of the buffer"));
  scene.Apply(decisions);
  scene.EndStopping();
  decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_NE(StartOf(decisions, "a"), nullptr);
  EXPECT_THAT(NodesOf(StartOf(decisions, "a")->placement), ElementsAre(1));
  EXPECT_EQ(StartOf(decisions, "borrower"), nullptr);
}

TEST_F(BufferTest, ABorrowerIsStoppedOnceForOneStart) {
  scene.view.policy.buffer = {.level = kWholeCluster, .nodes = 1};
  scene.RunOn("low", {0});
  Batch(scene.RunOn("borrower", {1}));
  scene.RunOn("other", {2, 3}).priority = 9;
  scene.Queue("urgent", 4).priority = 9;
  Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  ASSERT_TRUE(Preempts(decisions, "low", "urgent"));
  ASSERT_TRUE(Preempts(decisions, "borrower", "urgent"));
  scene.Apply(decisions);
  JobView& borrower = scene.Job("borrower");
  borrower.phase = JobPhase::kQueued;  // gone sooner than the other
  borrower.held.reset();
  decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_THAT(decisions.starts, IsEmpty());
  scene.EndStopping();
  scene.End("low");
  decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_NE(StartOf(decisions, "urgent"), nullptr);
  EXPECT_NE(StartOf(decisions, "borrower"), nullptr);
  EXPECT_THAT(decisions.preemptions, IsEmpty());
}

TEST_F(BufferTest, ABorrowerLeavesTheHeadWhatFillsIt) {
  scene.view.policy.buffer = {.level = kWholeCluster, .nodes = 1};
  scene.RunOn("first", {0}).seconds_left = 100;
  scene.RunOn("other", {2, 3});
  scene.Queue("head", 4);
  Batch(scene.Queue("long", 4));
  Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_THAT(decisions.starts, IsEmpty());
  scene.Job("long").seconds_left = 50;
  decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_NE(StartOf(decisions, "long"), nullptr);
}

TEST_F(BufferTest, APreemptibleJobOnOtherNodesIsNoBorrower) {
  scene.SetHealthy(0, false);
  scene.SetHealthy(1, false);
  scene.Recover("a", {{0, 0}, {0, 1}, {0, 2}, {0, 3}});
  Batch(scene.RunOn("b", {2}));
  // Node 3 is the buffer of its domain, free, and all that a needs.
  const Decisions decisions = scene.Decide();
  EXPECT_SOUND(scene, decisions);
  EXPECT_THAT(decisions.preemptions, IsEmpty());
  EXPECT_NE(StartOf(decisions, "a"), nullptr);
}

TEST_F(BufferTest, AShareIsRoundedUpAndOfTheWholeClusterOne) {
  scene.view.policy.buffer = {.level = kWholeCluster, .nodes = 0, .fraction = 0.26};
  EXPECT_THAT(BufferOf(scene.Now()).free, ElementsAre(2, 3));
  scene.view.policy.buffer->fraction = 0.25;
  EXPECT_THAT(BufferOf(scene.Now()).free, ElementsAre(3));
  scene.view.policy.buffer->level = "no such level";
  EXPECT_THAT(BufferOf(scene.Now()).free, IsEmpty());
}

}  // namespace
}  // namespace strata::scheduler
