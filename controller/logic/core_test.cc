// Every transition of a job, one by one.
#include "controller/logic/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;
using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kSucceeded = v1::Finished::SUCCEEDED;
constexpr auto kFailed = v1::Finished::FAILED;
constexpr auto kInterrupted = v1::Finished::INTERRUPTED;

// Two nodes of one device each, and a job on both: the cluster of the acceptance scenarios.
class TwoNodes : public ::testing::Test {
 protected:
  TwoNodes() {
    h.Join("n0");
    h.Join("n1");
  }
  // Both nodes start the job's present epoch.
  void Start(const std::string& job) {
    const int64_t epoch = h.Job(job).epoch();
    h.SayPrepared("n0", job, epoch, {0});
    h.SayPrepared("n1", job, epoch, {1});
    h.SayRunning("n0", job, epoch);
    h.SayRunning("n1", job, epoch);
    h.Take("n0");
    h.Take("n1");
  }
  Harness h;
};

TEST_F(TwoNodes, ANewJobIsPreparedOnFreeDevicesInTheNodesOrder) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  const auto first = h.Take("n0"), second = h.Take("n1");
  ASSERT_THAT(first, SizeIs(1));
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(first[0].prepare().own(), ElementsAre(0));
  EXPECT_THAT(second[0].prepare().own(), ElementsAre(1));
  EXPECT_EQ(second[0].prepare().ranks(), 2);
  EXPECT_FALSE(first[0].prepare().has_checkpoint());
  EXPECT_EQ(h.Node("n0").free(), 0);
}

TEST_F(TwoNodes, AllPreparedStartsAllWithAddressesByRank) {
  (void)h.Create(Harness::Request("a", 2));
  h.Take("n0");
  h.SayPrepared("n1", "a", 1, {1});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  h.SayPrepared("n0", "a", 1, {0});
  const auto start = h.Take("n0");
  ASSERT_THAT(start, SizeIs(1));
  EXPECT_THAT(start[0].start().addresses(), ElementsAre("address-0", "address-1"));
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  h.SayRunning("n0", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  h.SayRunning("n1", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Job("a").parameters(), 7);
}

TEST_F(TwoNodes, PreparedTwiceStartsOnce) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n0", "a", 1, {0});
  h.Take("n0");
  h.SayPrepared("n1", "a", 1, {1});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
}

TEST_F(TwoNodes, DifferentProgramsFailTheJobAndNameTheRanks) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0}, "one");
  h.SayPrepared("n1", "a", 1, {1}, "other");
  EXPECT_EQ(h.Job("a").state(), v1::FAILED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("ranks 0 and 1 made different programs"));
  EXPECT_TRUE(h.Take("n0").back().has_stop());
  EXPECT_TRUE(h.Take("n1").back().has_stop());
}

TEST_F(TwoNodes, APermanentProblemFailsTheJobWithItsField) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayProblem("n1", "a", 1, /*permanent=*/true);
  EXPECT_EQ(h.Job("a").state(), v1::FAILED);
  EXPECT_EQ(h.Job("a").reason(), "data.train[0].path: no such file (on n1)");
}

TEST_F(TwoNodes, APassingProblemIsTriedAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayProblem("n1", "a", 1, /*permanent=*/false);
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "start_failed");
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, AnEpochThatDoesNotPrepareInTimeIsGivenUp) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").reason(), "n1 did not prepare its ranks within 60 s");
}

TEST_F(TwoNodes, ATrainersDeathBeginsANewEpochAtOnceWhenAllRanksAreGone) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 20);
  h.SayCommit("n0", "a", 1, 20, "m20");
  h.SayStep("n0", "a", 1, 33);
  h.Take("n0");
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 on n1 was killed by signal 9", 1);
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").reason(), "rank 1 on n1 was killed by signal 9");
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 13);
  const auto stop = h.Take("n0");
  ASSERT_THAT(stop, SizeIs(1));
  EXPECT_FALSE(stop[0].stop().checkpoint());
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").step(), 20);
  EXPECT_EQ(h.Take("n1").back().prepare().checkpoint().manifest_digest(), "m20");
}

TEST_F(TwoNodes, TheCulpritsOwnWordReplacesAnEchoAsTheReason) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n0", "a", 1, kFailed, "the connection to rank 1 broke", -1);
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 on n1 was killed by signal 11", 1);
  EXPECT_EQ(h.Job("a").events(0).reason(), "rank 1 on n1 was killed by signal 11");
  EXPECT_THAT(h.Job("a").events(), SizeIs(1));
}

TEST_F(TwoNodes, SpareDevicesAreTakenWhenAnOldNodeIsLost) {
  h.Join("n2");
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0", "n2"});
  h.SayHang("n0", "a", 1, 1, {1});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 1 on n1"));
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("group data, instruction reduce block 1"));
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.Pass(1, {"n0", "n2"});  // n1 is lost by now
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n2");
}

TEST_F(TwoNodes, AFrozenNodesDeviceIsUsedAgainOnlyAfterItsWord) {
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.Pass(120, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  h.Take("n1");
  h.Pass(2, {"n0", "n1"});  // it wakes in the same session: its heartbeats go on
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_TRUE(h.Take("n1").front().has_stop());
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

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
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::SUCCEEDED);
  EXPECT_EQ(h.Job("a").step(), 100);
  EXPECT_TRUE(h.Job("a").has_end_time());
  EXPECT_EQ(h.Node("n0").free(), 1);
}

TEST_F(TwoNodes, ADeathAfterTheLastCommitDoesNotRestartFinishedWork) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n1", "a", 1, kFailed, "killed", 1);
  EXPECT_EQ(h.Job("a").state(), v1::SUCCEEDED);
}

TEST_F(TwoNodes, AnEndWhoseLastFragmentsWereLostIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n1", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "commit_failed");
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

TEST_F(TwoNodes, RestartsWithoutProgressAreBoundedAndBackOff) {
  h.Run("a", {"n0", "n1"});
  for (int epoch = 1; epoch <= 4; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    ASSERT_NE(h.Job("a").state(), v1::FAILED);
    if (epoch > 1) Start("a");
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    if (epoch == 2) {
      EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);  // backs off
    }
    h.Pass(0.5, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::FAILED);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 4);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("4 times in a row without a new checkpoint"));
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("crash"));
}

TEST_F(TwoNodes, ACommittedCheckpointRefillsTheBudget) {
  h.Run("a", {"n0", "n1"});
  for (int epoch = 1; epoch <= 12; ++epoch) {
    ASSERT_EQ(h.Job("a").epoch(), epoch);
    Start("a");
    if (epoch % 4 == 0) h.SayCommit("n0", "a", epoch, epoch, "m");
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    h.Pass(1, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
}

TEST_F(TwoNodes, AnAgentsRestartDoesNotDisturbItsRanks) {
  h.Run("a", {"n0", "n1"});
  h.EndSession("n1");
  h.Pass(20, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::LOST);
  h.Join("n1", {Held("a", 1, {1}, true)});
  EXPECT_EQ(h.LastWelcome("n1").keep(0).epoch(), 1);
  h.Pass(40, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

TEST_F(TwoNodes, SilenceBeyondTheLeaseIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.Pass(29, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, ANodeThatComesBackWithoutItsRanksIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.Join("n1");
  EXPECT_EQ(h.LastWelcome("n1").keep_size(), 0);
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);  // it may yet say how they ended
  h.Pass(1.5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, ANodeThatComesBackWithSomeOfItsRanksIsAFailure) {
  h.Join("n2", {}, 2);
  (void)h.Create(Harness::Request("a", 4));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n2", "a", 1, {2, 3});
  for (const char* node : {"n0", "n1", "n2"}) h.SayRunning(node, "a", 1);
  ASSERT_EQ(h.Job("a").state(), v1::RUNNING);
  h.Join("n2", {Held("a", 1, {2}, true)}, 2);
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 3 on n2 is gone"));
}

TEST_F(TwoNodes, AnEndSaidAgainAfterABrokenSessionIsNoFailure) {
  h.Run("a", {"n0", "n1"});
  h.SayWritten("n1", "a", 1, 100, {1});
  h.Reconnect("n1", {});
  h.SayEnded("n1", "a", 1, kSucceeded);
  h.Pass(3, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::SUCCEEDED);
}

TEST_F(TwoNodes, AnEndBeforePreparationIsConfirmedBeforeTheDeviceIsFree) {
  (void)h.Create(Harness::Request("a", 2));
  h.Reconnect("n1", {});  // is asked once more
  h.Take("n1");
  h.SayEnded("n1", "a", 1, kFailed, "out of memory", 1);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_TRUE(h.Take("n1").back().has_stop());
  EXPECT_EQ(h.Node("n1").free(), 0);
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, OfSeveralMissingRanksTheOneThatIsElsewhereIsNamed) {
  h.Join("n2");
  h.Run("a", {"n0", "n1", "n2"});
  h.SayBeat("n1", "a", 1, 1, "reduce block 1");
  h.SayBeat("n2", "a", 1, 2, "forward block 0");
  h.SayHang("n0", "a", 1, 1, {1, 2});
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 2 on n2 is missing in group data"));
  EXPECT_EQ(h.Job("a").events(0).cause(), "hang");
}

TEST_F(TwoNodes, AnUnsureBlameIsReplacedByTheCulpritsOwnAgent) {
  h.Join("n2");
  h.Run("a", {"n0", "n1", "n2"});
  h.SayHang("n0", "a", 1, 1, {1, 2});
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 1 on n1"));
  h.SayHang("n2", "a", 1, 2);
  EXPECT_EQ(h.Job("a").reason(),
            "rank 2 on n2 has not moved for 3.5 s in group data, instruction reduce block 1");
}

TEST_F(TwoNodes, ALostPrepareIsSaidAgainToTheSameEpoch) {
  (void)h.Create(Harness::Request("a", 2));
  h.Take("n1");
  h.Reconnect("n1", {});
  const auto again = h.Take("n1");
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].prepare().epoch().epoch(), 1);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_EQ(h.Node("n1").free(), 0);
}

TEST_F(TwoNodes, ALostStartIsSaidAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.Take("n1");
  h.Reconnect("n1", {Held("a", 1, {1}, false)});
  EXPECT_THAT(h.Take("n1").back().start().addresses(), SizeIs(2));
}

TEST_F(TwoNodes, AControllersRestartDisturbsNothing) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "m20");
  const int64_t version = h.core->resource_version(), term = h.core->controller_term();
  h.RestartController();
  EXPECT_EQ(h.core->controller_term(), term + 1);
  EXPECT_GE(h.core->resource_version(), version);
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Node("n0").state(), v1::UNKNOWN);
  h.Pass(20);
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  h.SayCommit("n0", "a", 1, 40, "m40");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
}

TEST_F(TwoNodes, AfterAControllersRestartAnEpochThatNobodyHoldsIsStartedAnew) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Join("n0");
  h.Pass(1.5, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
  h.Join("n1");
  EXPECT_EQ(h.Job("a").state(), v1::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, AfterAControllersRestartNodesHaveTheLeaseAndAGraceToComeBack) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Pass(33, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::RECOVERING);
}

TEST_F(TwoNodes, AStartGoesOnAfterAControllersRestart) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.RestartController();
  h.Take("n0");
  h.Reconnect("n0", {Held("a", 1, {0}, false)});
  EXPECT_TRUE(h.Take("n0").back().has_prepare());
  h.Reconnect("n1", {});
  EXPECT_TRUE(h.Take("n1").back().has_prepare());
  Start("a");
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

TEST_F(TwoNodes, AnEpochFromBeforeIsStoppedAndBlocksItsNodeUntilItIsGone) {
  h.Join("n2", {Held("forgotten", 3, {0}, true)});
  EXPECT_EQ(h.LastWelcome("n2").keep_size(), 0);
  const auto stop = h.Take("n2");
  ASSERT_THAT(stop, SizeIs(1));
  EXPECT_EQ(stop[0].stop().epoch().epoch(), 3);
  EXPECT_EQ(h.Node("n2").free(), 0);
  h.SayEnded("n2", "forgotten", 3, kInterrupted);
  EXPECT_EQ(h.Node("n2").free(), 1);
}

TEST_F(TwoNodes, OfTwoAgentsOfANodeTheOlderIsDismissedForGood) {
  const uint64_t old_session = h.SessionOf("n1"), old = h.IncarnationOf("n1");
  h.Join("n1");
  ASSERT_THAT(h.dismissed, SizeIs(1));
  EXPECT_EQ(h.dismissed[0].incarnation, old);
  EXPECT_EQ(h.dismissed[0].session, old_session);
  v1::AgentMessage message;
  message.set_incarnation(old);
  message.mutable_register_()->set_node("n1");
  message.mutable_register_()->set_devices(1);
  Effects effects;
  h.core->OnAgent(99, message, effects);
  ASSERT_THAT(effects.messages, SizeIs(1));
  EXPECT_TRUE(effects.messages[0].message.has_dismiss());
  EXPECT_EQ(h.Node("n1").incarnation(), h.IncarnationOf("n1"));
}

TEST_F(TwoNodes, WhatAReplacedSessionStillSaysIsIgnored) {
  h.Run("a", {"n0", "n1"});
  const uint64_t old_session = h.SessionOf("n1");
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  v1::AgentMessage message;
  message.set_incarnation(h.IncarnationOf("n1"));
  message.mutable_ended()->mutable_epoch()->set_job("jobs/a");
  message.mutable_ended()->mutable_epoch()->set_epoch(1);
  Effects effects;
  h.core->OnAgent(old_session, message, effects);
  h.core->OnSessionEnd(old_session, effects);
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::READY);
}

TEST_F(TwoNodes, AStandstillOfTheControllerIsNoSilenceOfTheNodes) {
  h.Run("a", {"n0", "n1"});
  h.Pass(1, {"n0", "n1"});
  h.StandStill(100);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::READY);
}

TEST_F(TwoNodes, ARecoveringJobKeepsItsDevicesFromTheQueueForALease) {
  h.Run("a", {"n0", "n1"});
  h.Pass(3.5, {"n0"});
  h.SayHang("n0", "a", 1, 1, {1});
  h.SayEnded("n0", "a", 1, kInterrupted);
  (void)h.Create(Harness::Request("b", 1));
  h.Pass(20, {"n0"});
  EXPECT_EQ(h.Job("b").state(), v1::QUEUED);
  h.Pass(11, {"n0"});
  EXPECT_EQ(h.Job("b").state(), v1::STARTING);
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
