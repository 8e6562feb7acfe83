// Which checkpoints count, and how a job ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using testing::kFailed;
using testing::kInterrupted;
using testing::kSucceeded;
using ::testing::SizeIs;
using testing::TwoNodes;

TEST_F(TwoNodes, AZombieIsToldToStopAndCommitsNothing) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "m20");
  h.SayHang("n0", "a", 1, 1, {1});
  h.Take("n0");
  h.SayCommit("n0", "a", 1, 40, "m40");
  const auto answers = h.Take("n0");
  EXPECT_FALSE(answers.back().commit().accepted());
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  ASSERT_EQ(h.Job("a").epoch(), 2);
  h.Take("n0");
  h.SayCommit("n0", "a", 1, 40, "m40");
  const auto stale = h.Take("n0");
  ASSERT_THAT(stale, SizeIs(2));
  EXPECT_TRUE(stale[0].has_stop());
  EXPECT_FALSE(stale[1].commit().accepted());
  EXPECT_THAT(stale[1].commit().reason(), HasSubstr("epoch 1 is over"));
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
}

TEST_F(TwoNodes, TheSameCommitIsAcceptedAgainAndAnotherOfItsStepIsNot) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "m20");
  EXPECT_TRUE(h.Take("n0").back().commit().accepted());
  const int64_t version = h.core->resource_version();
  h.SayCommit("n0", "a", 1, 20, "m20");
  EXPECT_TRUE(h.Take("n0").back().commit().accepted());
  EXPECT_EQ(h.core->resource_version(), version);
  h.SayCommit("n0", "a", 1, 20, "other");
  EXPECT_FALSE(h.Take("n0").back().commit().accepted());
  h.SayCommit("n0", "a", 1, 10, "m10");
  EXPECT_FALSE(h.Take("n0").back().commit().accepted());
  h.SayCommit("n0", "a", 1, 101, "m101");
  EXPECT_FALSE(h.Take("n0").back().commit().accepted());
}

TEST_F(TwoNodes, FragmentsOfAllRanksMakeTheManifest) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 20, {1});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  h.SayWritten("n0", "a", 1, 20, {0});
  const auto manifest = h.Take("n0");
  ASSERT_THAT(manifest, SizeIs(1));
  EXPECT_THAT(manifest[0].write_manifest().fragments(), ElementsAre("fragment-0", "fragment-1"));
  h.Reconnect("n0", {Held("a", 1, {0}, true)});  // in case it was lost
  EXPECT_EQ(h.Take("n0").back().write_manifest().step(), 20);
  h.SayCommit("n0", "a", 1, 20, "m20");
  h.Take("n0");
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
}

TEST_F(TwoNodes, TheJobSucceedsWhenAllRanksEndAfterTheLastCommit) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.SayEnded("n1", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("a").step(), 100);
  EXPECT_TRUE(h.Job("a").has_end_time());
  EXPECT_EQ(h.Node("n0").free(), 1);
}

TEST_F(TwoNodes, ADeathAfterTheLastCommitDoesNotRestartFinishedWork) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n1", "a", 1, kFailed, "killed", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
}

TEST_F(TwoNodes, AnEndWhoseLastFragmentsWereLostIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n1", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "commit_failed");
}

// Rank 0 commits in order: without the earlier checkpoint the last one never comes.
TEST_F(TwoNodes, AnEndWhoseEarlierFragmentsWereLostIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n0", "a", 1, 90, {0});
  h.SayWritten("n0", "a", 1, 100, {0});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.SayEnded("n1", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "commit_failed");
}

TEST_F(TwoNodes, WhatAnEndedEpochHadWrittenIsNotAnswered) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.SayEnded("n1", "a", 1, kSucceeded);
  h.SayWritten("n1", "a", 1, 100, {1});
  h.SayStep("n1", "a", 1, 100);
  EXPECT_THAT(h.Take("n1"), IsEmpty());
}

TEST_F(TwoNodes, SuccessWithoutTheLastCommitIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.SayWritten("n0", "a", 1, 100, {0});
  h.SayEnded("n1", "a", 1, kSucceeded);
  h.SayEnded("n0", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").events(0).cause(), "commit_failed");
}

TEST_F(TwoNodes, AnEndSaidAgainAfterABrokenSessionIsNoFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.Reconnect("n1", {});
  h.SayEnded("n1", "a", 1, kSucceeded);
  h.Pass(3, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
}

TEST_F(TwoNodes, RunningIsLiveButStepsAreNotWritten) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 1);
  EXPECT_TRUE(h.Job("a").has_start_time());
  const int64_t version = h.core->resource_version();
  h.SayStep("n0", "a", 1, 2);
  EXPECT_EQ(h.Job("a").step(), 2);
  EXPECT_EQ(h.core->resource_version(), version);
  EXPECT_THAT(h.progress, SizeIs(2));
}

}  // namespace
}  // namespace strata::controller
