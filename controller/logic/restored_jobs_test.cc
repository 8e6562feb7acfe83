// What a controller does whose records came from a backup, with what went on meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/logic/restored_store.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Harness;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TwoNodes;

class RestoredJobs : public TwoNodes {
 protected:
  // The store is what it is now, and the controller starts with it as with a backup.
  void Restore() {
    std::vector<Write> all;
    for (const auto& [key, write] : h.records) all.push_back(write);
    const auto writes = AfterRestore(all, common::SeededEntropy(5));
    ASSERT_TRUE(writes.ok());
    for (const Write& write : *writes) h.records[{write.table, write.key}] = write;
    h.RestartController();
    h.Take("n0");
    h.Take("n1");
  }
  // The same with an earlier store.
  void RestoreFrom(const std::map<std::pair<std::string, std::string>, Write>& backup) {
    h.records = backup;
    Restore();
  }
  // One rank of two, of a later start than the backup knows.
  v1::HeldEpoch Later(const std::string& job, int64_t epoch, int rank, int64_t step = 0) {
    v1::HeldEpoch held = testing::Held(job, epoch, {rank}, true);
    held.mutable_epoch()->set_uid(h.Job(job).uid());
    held.add_devices(0);
    held.set_job_ranks(2);
    held.set_step(step);
    return held;
  }
};

TEST_F(RestoredJobs, RanksThatTrainedOnAreTheJobs) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "m20");
  Restore();
  h.Pass(10);
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true)});
  h.Reconnect("n1", {testing::Held("a", 1, {1}, true)});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_THAT(h.Job("a").events(), IsEmpty());
}

TEST_F(RestoredJobs, ATimeLimitCountsTheTimeSinceTheBackupAndNoMore) {
  v1::CreateJobRequest request = Harness::Request("a", 2);
  request.mutable_job()->mutable_spec()->mutable_time_limit()->set_seconds(600);
  ASSERT_TRUE(h.Create(request).ok());
  h.Run("a", {"n0", "n1"});
  h.Pass(20, {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true)});
  h.Reconnect("n1", {testing::Held("a", 1, {1}, true)});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING) << h.Job("a").reason();
  EXPECT_LT(h.Job("a").run_time().seconds(), 100);
}

TEST_F(RestoredJobs, ALaterEpochThanTheBackupKnowsGoesOn) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {Later("a", 4, 0, 70)});
  ASSERT_THAT(h.LastWelcome("n0").keep(), SizeIs(1));
  h.Pass(5, {"n0"});
  EXPECT_THAT(h.Take("n0"), IsEmpty());  // neither stopped nor told anything else
  // What the node of rank 0 says before the other one is back is not lost.
  h.SayCommit("n0", "a", 4, 80, "m80");
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  h.Reconnect("n1", {Later("a", 4, 1, 70)});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 4);
  const auto told = h.Take("n0");
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_TRUE(told[0].commit().accepted()) << told[0].commit().reason();
  EXPECT_EQ(h.Job("a").checkpoint().step(), 80);
  EXPECT_FALSE(h.Job("a").restored());
  ASSERT_THAT(h.Job("a").placement(), SizeIs(2));
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n1");
  ASSERT_THAT(h.Job("a").events(), SizeIs(1));
  EXPECT_EQ(h.Job("a").events(0).cause(), "restored");
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 0);
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n0").free(), 0);
}

TEST_F(RestoredJobs, ALaterEpochKeepsTheOrderThatItsRanksWereNumberedBy) {
  h.Run("a", {"n0", "n1"});
  Restore();
  const std::vector<std::string> order = {"tensor", "context",  "expert",
                                          "data",   "pipeline", "replicate"};
  for (int rank = 0; rank < 2; ++rank) {
    v1::HeldEpoch held = Later("a", 4, rank);
    held.mutable_rank_order()->Add(order.begin(), order.end());
    h.Reconnect(rank == 0 ? "n0" : "n1", {held});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_THAT(h.Job("a").layout().order(), ElementsAreArray(order));
  const auto why = h.core->ExplainJob("jobs/a");
  ASSERT_THAT(why->mesh(), SizeIs(4));
  EXPECT_EQ(why->mesh(2).name(), "data");
  EXPECT_EQ(why->mesh(2).degree(), 2);
  EXPECT_THAT(why->ranks(1).coordinates(), ElementsAre(0, 0, 1, 0));
}

TEST_F(RestoredJobs, ALaterEpochGoesOnToTheStepsThatItWasGiven) {
  h.Run("a", {"n0", "n1"});
  Restore();
  for (int rank = 0; rank < 2; ++rank) {
    v1::HeldEpoch held = Later("a", 4, rank, 150);
    held.set_steps(200);
    h.Reconnect(rank == 0 ? "n0" : "n1", {held});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").step(), 150);
  EXPECT_EQ(h.Job("a").target_step(), 200);
  EXPECT_EQ(h.Job("a").spec().train().steps(), 200);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("its train.steps are 200, as changed after"));
  h.SayCommit("n0", "a", 4, 160, "m160");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 160);
}

TEST_F(RestoredJobs, NoWordOfALaterEpochIsLostBeforeItIsWhole) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {Later("a", 4, 0, 70)});
  for (int i = 0; i < 1100; ++i) h.SayRunning("n0", "a", 4);
  for (const int64_t step : {50, 55, 60, 65, 70, 80}) h.SayWritten("n0", "a", 4, step, {0});
  h.SayCommit("n0", "a", 4, 70, "m70");
  h.Reconnect("n1", {Later("a", 4, 1, 70)});
  EXPECT_EQ(h.Job("a").checkpoint().step(), 70);
  h.Take("n0");
  h.SayWritten("n1", "a", 4, 80, {1});
  const auto told = h.Take("n0");
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].write_manifest().step(), 80);
}

// Of the two members of an epoch that was being started then, one has ended since, and comes late.
TEST_F(RestoredJobs, AnEpochThatHasCommittedIsNotBegunAgainOnANodeThatComesLate) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  h.Take("n0");
  h.Take("n1");
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  Restore();
  v1::HeldEpoch held = testing::Held("a", 1, {0}, true);
  held.mutable_epoch()->set_uid(h.Job("a").uid());
  h.Reconnect("n0", {held});
  h.SayCommit("n0", "a", 1, 20, "m20");
  ASSERT_EQ(h.Job("a").checkpoint().step(), 20);
  ASSERT_FALSE(h.Job("a").restored());
  h.Take("n1");
  h.Reconnect("n1", {});
  for (const v1::ControllerMessage& message : h.Take("n1")) EXPECT_FALSE(message.has_prepare());
}

TEST_F(RestoredJobs, RanksThatBeganBeforeTheBackupsCheckpointCommitAsThoughItWereGone) {
  h.Run("a", {"n0", "n1"});
  for (const int64_t step : {20, 40}) h.SayCommit("n0", "a", 1, step, absl::StrCat("m", step));
  Restore();
  h.Reconnect("n0", {Later("a", 4, 0, 10)});
  h.Reconnect("n1", {Later("a", 4, 1, 10)});
  ASSERT_EQ(h.Job("a").epoch(), 4);
  h.Take("n0");
  h.SayWritten("n0", "a", 4, 30, {0});
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
  ASSERT_THAT(h.Job("a").damaged_checkpoints(), SizeIs(1));
  EXPECT_EQ(h.Job("a").damaged_checkpoints(0).step(), 40);
  h.SayWritten("n1", "a", 4, 30, {1});
  const auto told = h.Take("n0");
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].write_manifest().step(), 30);
  h.SayCommit("n0", "a", 4, 30, "m30");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 30);
  EXPECT_EQ(h.Job("a").step(), 30);
}

TEST_F(RestoredJobs, AJobThatWasSuspendedInTheBackupAndRunsWasResumed) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  h.SayEnded("n0", "a", 1, testing::kInterrupted);
  h.SayEnded("n1", "a", 1, testing::kInterrupted);
  ASSERT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  Restore();
  h.Reconnect("n0", {Later("a", 2, 0)});
  h.Reconnect("n1", {Later("a", 2, 1)});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_FALSE(h.Job("a").suspended());
  EXPECT_THAT(h.core->ExplainJob("jobs/a")->lines(0), HasSubstr("resumed since"));
  h.Take("n0");
  ASSERT_TRUE(h.Suspend("a").ok());
  const auto told = h.Take("n0");
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_TRUE(told[0].stop().checkpoint());
}

TEST_F(RestoredJobs, RanksThatASuspendedJobWasStoppingAreNoReasonToGoOn) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  h.Pass(61, {"n0", "n1"});  // they do not end
  ASSERT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  Restore();
  h.Reconnect("n0", {Later("a", 1, 0)});
  h.Reconnect("n1", {Later("a", 1, 1)});
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  ASSERT_FALSE(h.Take("n0").empty());
}

TEST_F(RestoredJobs, AnOrderlyStopThatTheBackupDoesNotKnowGoesOn) {
  h.Run("a", {"n0", "n1"});
  const auto backup = h.records;
  ASSERT_TRUE(h.Suspend("a").ok());
  h.SayStopping("n0", "a", 1, 41);
  RestoreFrom(backup);
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true)});
  h.SayStopping("n0", "a", 1, 41);
  h.Reconnect("n1", {testing::Held("a", 1, {1}, true)});
  EXPECT_TRUE(h.Take("n1").back().stop().checkpoint());
  h.SayStopping("n1", "a", 1, 42);
  EXPECT_EQ(h.Take("n0").back().stop_after().step(), 42);
  h.SayCommit("n0", "a", 1, 42, "m42");
  h.SayEnded("n0", "a", 1, testing::kInterrupted);
  h.SayEnded("n1", "a", 1, testing::kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").step(), 42);
  EXPECT_EQ(h.Job("a").events(0).cause(), "restored");
}

// Its address is another one now, and agents take their time to learn it.
TEST_F(RestoredJobs, NothingIsConcludedBeforeTheFirstAgentIsThere) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Pass(300);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Reconnect("n0", {Later("a", 4, 0, 70)});
  h.Pass(20, {"n0"});
  h.Reconnect("n1", {Later("a", 4, 1, 70)});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 4);
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").epoch(), 4);
  EXPECT_FALSE(h.core->cut_off());
}

TEST_F(RestoredJobs, AfterTheFirstAgentTheOthersAreExpectedWithinALease) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Pass(300);
  h.Join("n0");
  h.Pass(29, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(6, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(RestoredJobs, AnEndSinceTheBackupIsNoFailureWhileALaterEpochMayBeFound) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {Later("a", 4, 0)});
  h.SayEnded("n0", "a", 1, testing::kFailed, "died", 0);  // it says again how epoch 1 ended
  h.Pass(3, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Reconnect("n1", {Later("a", 4, 1)});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 4);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_THAT(h.Job("a").events(), SizeIs(1));
}

TEST_F(RestoredJobs, OnceItsEpochIsFoundAFailureIsOneAtOnce) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true)});
  h.Reconnect("n1", {testing::Held("a", 1, {1}, true)});
  h.SayBeat("n0", "a", 1, 0, "");
  h.SayBeat("n1", "a", 1, 1, "");
  h.SayEnded("n0", "a", 1, testing::kFailed, "died", 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

// Somebody had preempted or suspended it, or drained its node, after the backup was taken.
TEST_F(RestoredJobs, AnEndThatTheControllerHadWishedIsNotCountedAgainstTheJob) {
  h.Run("a", {"n0", "n1"});
  Restore();
  for (int rank = 0; rank < 2; ++rank) {
    h.Reconnect(rank == 0 ? "n0" : "n1", {Later("a", 4, rank)});
  }
  ASSERT_EQ(h.Job("a").epoch(), 4);
  v1::AgentMessage message;
  *message.mutable_ended()->mutable_epoch() = Later("a", 4, 0).epoch();
  message.mutable_ended()->mutable_finished()->set_outcome(testing::kFailed);
  message.mutable_ended()->mutable_finished()->set_message("preempted by b");
  message.mutable_ended()->set_rank(-1);
  message.mutable_ended()->set_cause("user");
  h.Say("n0", std::move(message));
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
}

TEST_F(RestoredJobs, AnEndThatIsStillToBeToldDoesNotHideALaterEpoch) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true), Later("a", 4, 0)});
  h.SayEnded("n0", "a", 1, testing::kFailed, "died", 0);
  h.Reconnect("n1", {testing::Held("a", 1, {1}, true), Later("a", 4, 1)});
  h.SayEnded("n1", "a", 1, testing::kFailed);
  EXPECT_EQ(h.Job("a").epoch(), 4);
  h.Pass(40, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_THAT(h.Job("a").events(), SizeIs(1));
}

TEST_F(RestoredJobs, AJobThatWaitedThenIsFoundRunning) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  ASSERT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  Restore();
  h.Reconnect("n0", {Later("b", 1, 0)});
  h.Reconnect("n1", {Later("b", 1, 1)});
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  h.Pass(45, {"n0", "n1"});
  EXPECT_EQ(h.Job("b").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);  // it was over: nobody holds it
}

TEST_F(RestoredJobs, AnEpochThatIsNotWholeIsStoppedAndTheJobStartedAboveAllThatWas) {
  h.Run("a", {"n0", "n1"});
  Restore();
  h.Reconnect("n0", {Later("a", 4, 0)});
  h.Join("n1");
  h.Pass(20, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);  // as of the backup: the rest may yet come
  h.Pass(15, {"n0", "n1"});
  const auto told = h.Take("n0");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].stop().epoch().epoch(), 4);
  v1::AgentMessage ended;
  *ended.mutable_ended()->mutable_epoch() = told[0].stop().epoch();
  h.Say("n0", ended);
  h.Pass(2, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 1 + kRestoredEpochs);
  const auto prepares = h.Take("n1");
  ASSERT_FALSE(prepares.empty());
  EXPECT_TRUE(prepares.back().prepare().adopt_newer_checkpoint());
}

TEST_F(RestoredJobs, RanksOfAnotherJobOfTheNameAreNoneOfIts) {
  h.Run("a", {"n0", "n1"});
  Restore();
  v1::HeldEpoch other = Later("a", 4, 0);
  other.mutable_epoch()->set_uid("another");
  h.Reconnect("n0", {other});
  EXPECT_THAT(h.LastWelcome("n0").keep(), IsEmpty());
  ASSERT_FALSE(h.Take("n0").empty());
}

// Nobody holds its ranks: it starts with the newest checkpoint on disk.
class RestoredCheckpoints : public RestoredJobs {
 protected:
  void Begin() {
    h.Run("a", {"n0", "n1"});
    h.SayCommit("n0", "a", 1, 20, "m20");
    Restore();
    h.Join("n0");
    h.Join("n1");
    h.Pass(35, {"n0", "n1"});
    ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
    h.Take("n0");
    h.Take("n1");
  }
  void SayNewer(int64_t step, int64_t steps = 0) {
    v1::AgentMessage message;
    message.mutable_prepared()->mutable_epoch()->set_job("jobs/a");
    message.mutable_prepared()->mutable_epoch()->set_epoch(h.Job("a").epoch());
    message.mutable_prepared()->set_problem("there is a newer one");
    v1::CommittedCheckpoint& newer = *message.mutable_prepared()->mutable_newer_checkpoint();
    newer.set_epoch(3);
    newer.set_step(step);
    newer.set_manifest_digest("m");
    newer.set_path("/jobs/a/step");
    message.mutable_prepared()->set_newer_steps(steps);
    h.Say("n0", message);
  }
};

TEST_F(RestoredCheckpoints, ThatAreNewerThanTheBackupAreBegunWith) {
  Begin();
  const int64_t epoch = h.Job("a").epoch();
  SayNewer(60);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  h.SayEnded("n0", "a", epoch, testing::kFailed);
  h.SayEnded("n1", "a", epoch, testing::kFailed);
  h.Pass(1, {"n0", "n1"});
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  const auto told = h.Take("n1");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().prepare().checkpoint().step(), 60);
  EXPECT_EQ(told.back().prepare().checkpoint().epoch(), 3);
  EXPECT_FALSE(told.back().prepare().adopt_newer_checkpoint());
}

TEST_F(RestoredCheckpoints, OfTheLastStepEndTheJob) {
  Begin();
  SayNewer(100);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("a").step(), 100);
}

TEST_F(RestoredCheckpoints, BeyondTheStepsOfTheBackupAreBegunWithAndTellTheNewSteps) {
  Begin();
  const int64_t epoch = h.Job("a").epoch();
  SayNewer(150, 200);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("its train.steps are 200, as changed after"));
  h.SayEnded("n0", "a", epoch, testing::kFailed);
  h.SayEnded("n1", "a", epoch, testing::kFailed);
  h.Pass(1, {"n0", "n1"});
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  const auto told = h.Take("n1");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().prepare().checkpoint().step(), 150);
  EXPECT_EQ(told.back().prepare().spec().train().steps(), 200);
}

TEST_F(RestoredCheckpoints, BeyondTheStepsOfTheBackupEndTheJobWhereNobodyTellsMore) {
  Begin();
  SayNewer(150);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("a").step(), 150);
  EXPECT_EQ(h.Job("a").target_step(), 150);
}

TEST_F(RestoredCheckpoints, ThatAreNotNewerAreAskedForAgain) {
  Begin();
  const int64_t epoch = h.Job("a").epoch();
  SayNewer(20);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
  h.SayEnded("n0", "a", epoch, testing::kFailed);
  h.SayEnded("n1", "a", epoch, testing::kFailed);
  h.Pass(1, {"n0", "n1"});
  const auto told = h.Take("n1");
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.back().prepare().adopt_newer_checkpoint());
}

}  // namespace
}  // namespace strata::controller
