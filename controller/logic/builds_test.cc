// Nodes of different builds, and nodes that go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_join.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::SizeIs;
using testing::TwoNodes;

class Builds : public TwoNodes {
 protected:
  // A new agent process on the node, with a trainer of that build.
  void Upgrade(const std::string& node, const std::string& build,
               const std::vector<v1::HeldEpoch>& held = {}) {
    h.SetBuild(node, build);
    h.Join(node, held);
  }
  std::string Explained(const std::string& job) const {
    return absl::StrJoin(h.core->ExplainJob("jobs/" + job)->lines(), "\n");
  }
};

TEST_F(Builds, RanksOfOneJobAreOfOneBuild) {
  Upgrade("n0", "old");
  Upgrade("n1", "old");
  Upgrade("n2", "new");
  ASSERT_TRUE(h.Create(Harness::Request("a", 3)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_THAT(Explained("a"),
              HasSubstr("n2 is not usable: its trainer is of build new, and ranks are started with "
                        "build old"));
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Take("n0").back().prepare().build(), "old");
  (void)h.Cancel("b");
  h.SayEnded("n0", "b", 1, testing::kInterrupted);
  h.SayEnded("n1", "b", 1, testing::kInterrupted);
  Upgrade("n0", "new");  // now most are
  h.Pass(1, {"n0", "n1", "n2"});
  EXPECT_THAT(Explained("a"), HasSubstr("n1 is not usable: its trainer is of build old"));
  Upgrade("n1", "new");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Take("n1").back().prepare().build(), "new");
}

TEST_F(Builds, OfAsManyDevicesTheOneInUseStays) {
  for (const char* node : {"n0", "n1"}) Upgrade(node, "old");
  h.Join("n2");
  h.Join("n3");
  Upgrade("n2", "a new one");
  Upgrade("n3", "a new one");
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n0");
}

TEST_F(Builds, NodesWithoutATrainerTakeNoRanksWhereOthersHaveOne) {
  for (const char* node : {"n0", "n1"}) Upgrade(node, "");
  Upgrade("n2", "new");
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_THAT(Explained("a"), HasSubstr("n1 is not usable: its agent tells of no trainer"));
  ASSERT_TRUE(h.Create(Harness::Request("b", 1)).ok());
  ASSERT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("b").placement(0).node(), "nodes/n2");
}

TEST_F(Builds, RanksThatRunStayWhereTheyAreWhileTheirAgentsAreReplaced) {
  h.Run("a", {"n0", "n1"});
  Upgrade("n0", "new", {Held("a", 1, {0}, true)});
  h.Pass(10, {"n0", "n1"});
  Upgrade("n1", "new", {Held("a", 1, {1}, true)});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

TEST_F(Builds, ThatANodeIsLeftOutForItsBuildIsTold) {
  Upgrade("n0", "old");
  Upgrade("n1", "old");
  h.told_nodes.clear();
  Upgrade("n1", "new");
  ASSERT_FALSE(h.told_nodes.empty());
  EXPECT_EQ(h.told_nodes.back().name(), "nodes/n1");
  EXPECT_EQ(h.told_nodes.back().free(), 0);
}

TEST_F(Builds, PlansOfDifferentBuildsAreNoReasonToFailTheJob) {
  Upgrade("n0", "old");
  Upgrade("n1", "old");
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  h.SayPrepared("n0", "a", 1, {0}, "by old");
  h.SetBuild("n1", "new");
  h.Join("n1", {Held("a", 1, {1}, false)});  // upgraded between its choice and its answer
  h.SayPrepared("n1", "a", 1, {1}, "by new");
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("different plans"));
}

TEST_F(TwoNodes, RanksOfANodeThatIsAboutToGoMoveAtACheckpoint) {
  h.Run("a", {"n0", "n1"});
  h.Join("n2");
  v1::AgentMessage leaving;
  leaving.mutable_leaving()->set_reason("told to stop");
  h.Say("n1", leaving);
  EXPECT_TRUE(h.Node("n1").leaving());
  EXPECT_EQ(h.Node("n1").free(), 0);
  const auto told = h.Take("n1");
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.back().stop().checkpoint());
  h.SayStopping("n0", "a", 1, 7);
  h.SayStopping("n1", "a", 1, 7);
  h.SayCommit("n0", "a", 1, 7, "m7");
  h.SayEnded("n0", "a", 1, testing::kInterrupted);
  h.SayEnded("n1", "a", 1, testing::kInterrupted);
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n0");
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n2");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 7);
  ASSERT_THAT(h.Job("a").events(), SizeIs(1));
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 0);
}

TEST_F(TwoNodes, AJobThatFitsNowhereElseStopsAtACheckpointAndWaitsForTheNodesReturn) {
  h.Run("a", {"n0", "n1"});
  v1::AgentMessage leaving;
  leaving.mutable_leaving();
  h.Say("n1", leaving);
  ASSERT_FALSE(h.Take("n1").empty());
  h.SayStopping("n0", "a", 1, 7);
  h.SayStopping("n1", "a", 1, 7);
  h.SayCommit("n0", "a", 1, 7, "m7");
  h.SayEnded("n0", "a", 1, testing::kInterrupted);
  h.SayEnded("n1", "a", 1, testing::kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("n1 is about to go"));
  h.Pass(5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.Join("n1");  // another agent process
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
}

}  // namespace
}  // namespace strata::controller
