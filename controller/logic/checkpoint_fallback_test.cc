// Checkpoints that cannot be read when a job's ranks start again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/logic/checkpoint_commits.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::kFailed;
using testing::kInterrupted;
using testing::kSucceeded;
using testing::TwoNodes;

constexpr char kWhat[] = "/c/step-00000060/rank-1.safetensors: digest differs";

v1::CheckpointProblem Problem(int64_t epoch, int64_t step, bool may_pass = false) {
  v1::CheckpointProblem problem;
  problem.set_epoch(epoch);
  problem.set_step(step);
  problem.set_what(kWhat);
  problem.set_may_pass(may_pass);
  for (int64_t older = 20; older < step; older += 20) problem.add_older_steps(older);
  return problem;
}

// Job a has trained on both nodes to step 65 and is to start again, from the checkpoint of step 60.
class CheckpointFallback : public TwoNodes {
 protected:
  CheckpointFallback() {
    h.Run("a", {"n0", "n1"});
    for (const int64_t step : {20, 40, 60}) Commit(1, step);
    Lose(1, 65);
  }
  void Commit(int64_t epoch, int64_t step) {
    h.SayCommit("n0", "a", epoch, step, absl::StrCat("m", step, "-", epoch));
  }
  void Lose(int64_t epoch, int64_t step) {
    h.SayStep("n0", "a", epoch, step);
    h.SayEnded("n1", "a", epoch, kFailed, "rank 1 was killed", 1);
    h.SayEnded("n0", "a", epoch, kInterrupted);
    EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
    EXPECT_EQ(h.Job("a").epoch(), epoch + 1);
  }
  // A rank on n1 finds it when all load.
  void FindWhileLoading(const v1::CheckpointProblem& problem, bool echo_first = false) {
    const int64_t epoch = h.Job("a").epoch();
    h.SayPrepared("n0", "a", epoch, {0});
    h.SayPrepared("n1", "a", epoch, {1});
    if (echo_first) h.SayEnded("n0", "a", epoch, kFailed, "a connection broke", -1);
    v1::AgentMessage message;
    v1::EpochEnded& ended = *message.mutable_ended();
    ended.mutable_epoch()->set_job("jobs/a");
    ended.mutable_epoch()->set_epoch(epoch);
    ended.mutable_finished()->set_outcome(kFailed);
    ended.mutable_finished()->set_message(absl::StrCat("rank 1: ", problem.what()));
    ended.set_cause("start_failed");
    ended.set_rank(1);
    *ended.mutable_checkpoint_problem() = problem;
    h.Say("n1", std::move(message));
    if (!echo_first) h.SayEnded("n0", "a", epoch, kInterrupted);
  }
  // The planning process on n0 finds it.
  void FindWhilePlanning(const v1::CheckpointProblem& problem) {
    v1::AgentMessage message;
    v1::EpochPrepared& prepared = *message.mutable_prepared();
    prepared.mutable_epoch()->set_job("jobs/a");
    prepared.mutable_epoch()->set_epoch(h.Job("a").epoch());
    prepared.set_problem(problem.what());
    *prepared.mutable_checkpoint_problem() = problem;
    const int64_t epoch = h.Job("a").epoch();
    h.Say("n0", std::move(message));
    h.SayEnded("n0", "a", epoch, kFailed);
    h.SayEnded("n1", "a", epoch, kInterrupted);
  }
  const v1::JobEvent& LastEvent() const {
    const v1::JobRecord& job = h.Job("a");
    return job.events(job.events_size() - 1);
  }
  v1::PrepareEpoch LastPrepare(const std::string& node) {
    v1::PrepareEpoch found;
    for (const v1::ControllerMessage& message : h.Take(node)) {
      if (message.has_prepare()) found = message.prepare();
    }
    return found;
  }
};

TEST_F(CheckpointFallback, ADamagedCheckpointGivesWayToTheOneBefore) {
  const int64_t budget_used = h.Job("a").restarts_without_progress();
  FindWhileLoading(Problem(1, 60));
  const v1::JobRecord& job = h.Job("a");
  EXPECT_EQ(job.state(), v1::Job::STARTING);
  EXPECT_EQ(job.epoch(), 3);
  EXPECT_EQ(job.step(), 40);
  EXPECT_EQ(job.checkpoint().manifest_digest(), "m40-1");
  EXPECT_EQ(job.restarts_without_progress(), budget_used);
  EXPECT_EQ(LastEvent().cause(), "checkpoint_damaged");
  EXPECT_EQ(LastEvent().lost_steps(), 20);
  EXPECT_EQ(LastEvent().reason(),
            absl::StrCat("damaged checkpoint: ", kWhat, " (found on n1) — using that of step 40"));
  const v1::PrepareEpoch prepare = LastPrepare("n0");
  EXPECT_EQ(prepare.checkpoint().step(), 40);
  ASSERT_EQ(prepare.damaged_size(), 1);
  EXPECT_EQ(prepare.damaged(0).step(), 60);
}

TEST_F(CheckpointFallback, TheSameIsFoundWhilePlanning) {
  FindWhilePlanning(Problem(1, 60));
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
  EXPECT_EQ(LastEvent().cause(), "checkpoint_damaged");
}

TEST_F(CheckpointFallback, ItIsNoFaultOfTheNodeThatFindsIt) {
  for (const int64_t step : {60, 40, 20}) FindWhileLoading(Problem(1, step));
  EXPECT_EQ(h.Node("n1").failure_jobs_size(), 1);  // the rank that was killed
  EXPECT_FALSE(h.Node("n1").quarantined());
}

TEST_F(CheckpointFallback, WhereAllAreDamagedTheJobStartsAnewAndSaysSo) {
  for (const int64_t step : {60, 40, 20}) FindWhileLoading(Problem(1, step));
  const v1::JobRecord& job = h.Job("a");
  EXPECT_EQ(job.state(), v1::Job::STARTING);
  EXPECT_FALSE(job.has_checkpoint());
  EXPECT_EQ(job.step(), 0);
  EXPECT_EQ(job.restarts_without_progress(), 0);
  EXPECT_THAT(LastEvent().reason(), HasSubstr("no older one is left: the job starts anew"));
  EXPECT_EQ(LastEvent().lost_steps(), 20);
  const v1::PrepareEpoch prepare = LastPrepare("n0");
  EXPECT_FALSE(prepare.has_checkpoint());
  EXPECT_EQ(prepare.damaged_size(), 3);
}

TEST_F(CheckpointFallback, ALaterCheckpointOfTheSameStepReplacesTheDamagedOne) {
  FindWhileLoading(Problem(1, 60));
  Start("a");
  Commit(3, 60);
  EXPECT_EQ(h.Job("a").checkpoint().manifest_digest(), "m60-3");
  EXPECT_EQ(h.Job("a").damaged_checkpoints_size(), 0);
  EXPECT_EQ(h.Job("a").older_checkpoints_size(), 2);
  Lose(3, 61);
  EXPECT_EQ(LastPrepare("n0").checkpoint().manifest_digest(), "m60-3");
  FindWhileLoading(Problem(1, 60));  // said of the old one
  EXPECT_EQ(h.Job("a").checkpoint().manifest_digest(), "m60-3");
  EXPECT_EQ(LastEvent().cause(), "start_failed");
}

TEST_F(CheckpointFallback, TheWordOfTheRankThatFoundItReplacesAnEcho) {
  FindWhileLoading(Problem(1, 60), /*echo_first=*/true);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(LastEvent().cause(), "checkpoint_damaged");
  EXPECT_EQ(LastEvent().lost_steps(), 20);
  EXPECT_EQ(LastPrepare("n0").checkpoint().step(), 40);
}

TEST_F(CheckpointFallback, WhatTheStorageFailsToReadMayPass) {
  FindWhileLoading(Problem(1, 60, /*may_pass=*/true));
  h.Pass(1, {"n0", "n1"});  // back-off
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 60);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(LastEvent().cause(), "checkpoint_unreadable");
  EXPECT_EQ(LastEvent().reason(),
            absl::StrCat("the checkpoint of step 60 could not be read: ", kWhat, " (found on n1)"));
  Start("a");  // it has passed
  Commit(3, 80);
  EXPECT_EQ(h.Job("a").older_checkpoints_size(), 3);
}

TEST_F(CheckpointFallback, WhatTheStorageFailsToReadForLongIsTakenForDamage) {
  int tries = 0;
  for (; h.Job("a").checkpoint().step() == 60; ++tries) {
    ASSERT_LT(tries, 50);
    FindWhileLoading(Problem(1, 60, /*may_pass=*/true));
    h.Pass(9, {"n0", "n1"});  // the longest back-off
    ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  }
  EXPECT_GT(tries, 6);  // for a minute
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
  EXPECT_THAT(LastEvent().reason(), HasSubstr("times in a row: "));
  EXPECT_THAT(LastEvent().reason(), HasSubstr(" — using that of step 40"));
}

TEST_F(CheckpointFallback, StorageThatIsAwayForLongEndsTheJobBeforeAllIsGivenUp) {
  for (int tries = 0; h.Job("a").state() == v1::Job::STARTING; ++tries) {
    ASSERT_LT(tries, 50);
    FindWhileLoading(Problem(1, h.Job("a").checkpoint().step(), /*may_pass=*/true));
    h.Pass(9, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_TRUE(h.Job("a").has_checkpoint());
}

TEST_F(CheckpointFallback, ItIsDurable) {
  FindWhileLoading(Problem(1, 60));
  h.RestartController();
  h.Join("n0");
  h.Join("n1");
  const v1::PrepareEpoch prepare = LastPrepare("n0");
  EXPECT_EQ(prepare.checkpoint().step(), 40);
  EXPECT_EQ(prepare.damaged_size(), 1);
  FindWhileLoading(Problem(1, 40));
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
}

TEST_F(CheckpointFallback, ARecordOfAnEarlierReleaseHasOnlyItsNewest) {
  Start("a");
  v1::JobRecord record = h.Job("a");
  record.clear_older_checkpoints();
  h.records[{"jobs", "jobs/a"}].value = record.SerializeAsString();
  h.RestartController();
  h.Join("n0");
  h.Join("n1");
  h.Pass(1.5, {"n0", "n1"});
  Start("a");
  Commit(3, 80);
  Lose(3, 81);
  FindWhileLoading(Problem(3, 80));
  EXPECT_EQ(h.Job("a").checkpoint().step(), 60);
}

TEST_F(CheckpointFallback, StorageThatDamagesAllItGetsEndsTheJob) {
  for (int round = 0; h.Job("a").state() != v1::Job::FAILED; ++round) {
    ASSERT_LT(round, 20);
    const int64_t epoch = h.Job("a").epoch();
    Start("a");
    Commit(epoch, 90);
    Lose(epoch, 91);
    FindWhileLoading(Problem(epoch, 90));
    h.Pass(6, {"n0", "n1"});
  }
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("; so were 16 before it"));
}

TEST_F(CheckpointFallback, WhatRetentionHasDeletedIsPassedOver) {
  v1::CheckpointProblem problem = Problem(1, 60);
  problem.clear_older_steps();
  problem.add_older_steps(20);
  FindWhileLoading(problem);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 20);
  EXPECT_EQ(h.Job("a").older_checkpoints_size(), 0);
}

TEST(RecordCheckpoint, TheLastOnesAreKeptInMind) {
  v1::JobRecord job;
  for (int64_t step = 1; step <= 40; ++step) {
    v1::CommittedCheckpoint checkpoint;
    checkpoint.set_step(step);
    RecordCheckpoint(checkpoint, job);
  }
  EXPECT_EQ(job.older_checkpoints_size(), 15);
  EXPECT_EQ(job.older_checkpoints(0).step(), 25);
  EXPECT_EQ(job.checkpoint().step(), 40);
}

}  // namespace
}  // namespace strata::controller
