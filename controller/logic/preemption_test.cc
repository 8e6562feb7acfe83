// Jobs that are stopped though nothing is wrong with them: for a more urgent one, or off a node
// that is drained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using testing::kFailed;
using testing::kInterrupted;
using testing::kSucceeded;
using testing::TwoNodes;

v1::CreateJobRequest Urgent(const std::string& name, int ranks) {
  v1::CreateJobRequest request = Harness::Request(name, ranks);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(5);
  return request;
}

// Job a runs on both nodes, long enough that it may be preempted, and job x wants them.
class Preempted : public TwoNodes {
 protected:
  Preempted() {
    h.Run("a", {"n0", "n1"});
    h.SayStep("n0", "a", 1, 30);
    h.SayCommit("n0", "a", 1, 30, "m30");
    h.Pass(31, {"n0", "n1"});
    h.Take("n0");
    h.Take("n1");
    EXPECT_TRUE(h.Create(Urgent("x", 2)).ok());
  }
  void Stop() {
    h.SayStopping("n0", "a", 1, 40);
    h.SayStopping("n1", "a", 1, 39);
    h.SayStep("n0", "a", 1, 40);
    h.SayCommit("n0", "a", 1, 40, "m40");
    h.SayEnded("n0", "a", 1, kInterrupted);
    h.SayEnded("n1", "a", 1, kInterrupted);
  }
  void Finish(const std::string& job) {
    const int64_t epoch = h.Job(job).epoch();
    Start(job);
    h.SayCommit("n0", job, epoch, 100, "m100");
    h.SayEnded("n0", job, epoch, kSucceeded);
    h.SayEnded("n1", job, epoch, kSucceeded);
    EXPECT_EQ(h.Job(job).state(), v1::Job::SUCCEEDED);
  }
};

TEST_F(Preempted, AVictimStopsAtACheckpointAndStartsAgainWhenTheUrgentJobHasEnded) {
  EXPECT_EQ(h.Job("x").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").preemption().by(), "jobs/x");
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  EXPECT_TRUE(h.Take("n1").back().stop().checkpoint());
  Stop();
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").reason(), "preempted by x (priority 5 over 0) at step 40");
  EXPECT_EQ(h.Job("a").events(0).cause(), "preempted");
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 0);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
  Finish("x");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").step(), 40);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_FALSE(h.Job("a").has_preemption());
}

TEST_F(Preempted, AYoungJobIsNotPreemptedYet) {
  Stop();
  Start("x");
  v1::CreateJobRequest more = Urgent("y", 2);
  more.mutable_job()->mutable_spec()->mutable_resources()->set_priority(9);
  (void)h.Create(more);
  EXPECT_FALSE(h.Job("x").has_preemption());
  h.Pass(31, {"n0", "n1"});
  EXPECT_TRUE(h.Job("x").has_preemption());
}

TEST_F(Preempted, AVictimThatDoesNotStopInTimeIsStoppedWithoutACheckpoint) {
  h.Pass(59, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Take("n0");
  h.Pass(2, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("without a last checkpoint"));
  EXPECT_FALSE(h.Take("n0").front().stop().checkpoint());
  EXPECT_EQ(h.Job("x").state(), v1::Job::QUEUED);  // until the nodes say that the ranks are gone
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
}

TEST_F(Preempted, AVictimMayBeCancelledMeanwhile) {
  (void)h.Cancel("a");
  Stop();
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
}

TEST_F(Preempted, AVictimWhoseUrgentJobIsGoneStartsAgain) {
  (void)h.Cancel("x");
  Stop();
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(Preempted, AVictimThatFailsMeanwhileIsQueuedAndItsBudgetIsUntouched) {
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 on n1 was killed by signal 9", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("killed by signal 9"));
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
}

TEST_F(Preempted, AVictimThatFinishesFirstHasSucceeded) {
  h.SayStep("n0", "a", 1, 100);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, kSucceeded);
  h.SayEnded("n1", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
}

TEST_F(Preempted, TheWishSurvivesTheController) {
  h.RestartController();
  h.Take("n0");
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  Stop();
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("x").state(), v1::Job::STARTING);
}

TEST_F(Preempted, ItsPlaceInTheQueueSurvivesTheController) {
  (void)h.Create(Harness::Request("late", 2));
  Stop();
  h.RestartController();
  h.Reconnect("n0", {Held("x", 1, {0}, false)});
  h.Reconnect("n1", {Held("x", 1, {1}, false)});
  Finish("x");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("late").state(), v1::Job::QUEUED);
}

class Drained : public TwoNodes {
 protected:
  void Stop(const std::string& node) {
    h.SayStep(node, "a", 1, 40);
    h.SayCommit(node, "a", 1, 40, "m40");
    h.SayEnded(node, "a", 1, kInterrupted);
  }
};

TEST_F(Drained, ItsJobsMoveAtACheckpointAndItTakesNoNewRanks) {
  h.Run("a", {"n0"});
  ASSERT_TRUE(h.Drain("n0").ok());
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  EXPECT_EQ(h.Job("a").preemption().by(), "nodes/n0");
  (void)h.Create(Harness::Request("b", 1));
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);  // the free device is kept for what moves there
  Stop("n0");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n1");
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").events(0).cause(), "drained");
  EXPECT_EQ(h.Job("a").events(0).reason(), "moved, for n0 is drained, at step 40");
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  (void)h.Drain("n0", false);
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
}

TEST_F(Drained, ThePlaceThatIsKeptForAJobSurvivesTheController) {
  h.Run("a", {"n0"});
  ASSERT_TRUE(h.Drain("n0").ok());
  (void)h.Create(Harness::Request("b", 1));
  h.RestartController();
  h.Reconnect("n1", {});
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  Stop("n0");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n1");
  EXPECT_EQ(h.Job("a").layout().why(), "moves to the place that was kept for it");
  EXPECT_FALSE(h.Job("a").has_moving_to());
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
}

// Its old ranks are gone and its nodes come back one by one.
TEST_F(Drained, ThePlaceThatIsKeptIsNotGivenAwayBeforeAllItsNodesAreBack) {
  h.Run("a", {"n0", "n1"});
  h.Join("n2");
  ASSERT_TRUE(h.Drain("n0").ok());
  (void)h.Create(Harness::Request("b", 1));
  h.EndSession("n2");
  h.Pass(5, {"n0", "n1"});
  h.SayStopping("n0", "a", 1, 40);
  h.SayStopping("n1", "a", 1, 40);
  Stop("n0");
  h.SayEnded("n1", "a", 1, kInterrupted);
  ASSERT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.RestartController();
  h.Reconnect("n2", {});
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.Reconnect("n1", {});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n2");
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
}

// One after the other, the second would end what the first moves there.
TEST_F(Drained, AJobDoesNotMoveToANodeThatIsDrainedWithItsOwn) {
  h.Run("a", {"n0"});
  ASSERT_TRUE(h.DrainTogether({"nodes/n0", "nodes/n1"}).ok());
  EXPECT_FALSE(h.Job("a").has_preemption());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  (void)h.Drain("n1", false);
  EXPECT_TRUE(h.Job("a").has_preemption());
}

TEST_F(Drained, AJobThatFitsNowhereElseRunsOnUntilThereIsRoom) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Drain("n0").ok());
  h.Pass(5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_FALSE(h.Job("a").has_preemption());
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n"),
              HasSubstr("n0 is drained: it stays on a drained node, for it fits nowhere else now"));
  h.Join("n2");
  EXPECT_TRUE(h.Job("a").has_preemption());
  h.SayStopping("n0", "a", 1, 40);
  h.SayStopping("n1", "a", 1, 40);
  Stop("n0");
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n2");
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n1");  // the other rank stays
}

// Its rank there has written its part and ended; the other one may yet fail.
TEST_F(TwoNodes, APlaceThatAJobMayHaveToComeBackToIsNotKeptForOneThatMoves) {
  h.Join("n2");
  h.Run("moves", {"n0"});
  h.Run("ends", {"n1", "n2"});
  h.SayWritten("n2", "ends", 1, 100, {1});
  h.SayEnded("n2", "ends", 1, kSucceeded);
  ASSERT_EQ(h.Job("ends").state(), v1::Job::RUNNING);
  ASSERT_TRUE(h.Drain("n0").ok());
  h.Pass(1, {"n0", "n1", "n2"});
  EXPECT_FALSE(h.Job("moves").has_moving_to());
  h.SayEnded("n1", "ends", 1, kFailed, "crash", 0);
  h.Pass(1, {"n0", "n1", "n2"});
  EXPECT_EQ(h.Job("ends").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("ends").placement(1).node(), "nodes/n2");
}

}  // namespace
}  // namespace strata::controller
