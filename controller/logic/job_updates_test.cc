// What users wish of jobs that are there: graces, updates, pauses, time limits, deletion; and what
// is told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_record.h"
#include "controller/logic/refusal.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;
using testing::Harness;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kInterrupted;
using ::testing::Not;
using testing::StoppedJobs;

class JobUpdates : public StoppedJobs {
 protected:
  static v1::Job WithSteps(int64_t steps) {
    v1::Job job;
    job.mutable_spec()->mutable_train()->set_steps(steps);
    return job;
  }
  static v1::CancelJobRequest WithGrace(int64_t seconds) {
    v1::CancelJobRequest request;
    request.mutable_grace()->set_seconds(seconds);
    return request;
  }
  std::vector<std::string> TypesOf(const std::string& job) {
    std::vector<std::string> types;
    const auto events = h.core->JobEvents("jobs/" + job);
    for (const auto& kept : *events) types.insert(types.begin(), kept->event.type());
    return types;
  }
};

TEST_F(JobUpdates, CancelWithoutGraceEndsAtOnce) {
  h.Run("a", {"n0", "n1"});
  h.Take("n0");
  ASSERT_TRUE(h.Cancel("a", WithGrace(0)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_FALSE(h.Take("n0").back().stop().checkpoint());
}

TEST_F(JobUpdates, CancelWithAGraceWaitsThatLongAndTellsTheReason) {
  h.Run("a", {"n0", "n1"});
  v1::CancelJobRequest request = WithGrace(20);
  request.set_reason("wrong data");
  ASSERT_TRUE(h.Cancel("a", request).ok());
  h.Pass(19, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(2, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("cancelled (wrong data), without a last checkpoint"));
}

TEST_F(JobUpdates, AGraceMayBeShortenedNotLengthened) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Cancel("a", WithGrace(20)).ok());
  ASSERT_TRUE(h.Cancel("a", WithGrace(500)).ok());
  h.Pass(10, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  ASSERT_TRUE(h.Cancel("a", WithGrace(0)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  v1::CancelJobRequest bad;
  bad.mutable_grace()->set_seconds(-1);
  EXPECT_EQ(h.Cancel("a", bad).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobUpdates, EtagsOfOtherVersionsAreRefused) {
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  v1::CancelJobRequest request;
  request.set_etag("\"1\"");
  const absl::Status refused = h.Cancel("b", request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(refused), "ETAG_MISMATCH");
  request.set_etag(EtagOf(h.Job("b")));
  EXPECT_TRUE(h.Cancel("b", request).ok());
}

TEST_F(JobUpdates, PriorityAndQueueOfAWaitingJobDecideAtOnce) {
  ASSERT_TRUE(h.Create(Harness::Request("holds", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("first", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("second", 2)).ok());
  v1::Job changes;
  changes.mutable_spec()->mutable_resources()->set_priority(7);
  ASSERT_TRUE(h.Update("second", changes, {"spec.resources.priority"}).ok());
  (void)h.Cancel("holds");
  h.SayEnded("n0", "holds", 1, kInterrupted);
  h.SayEnded("n1", "holds", 1, kInterrupted);
  EXPECT_EQ(h.Job("second").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("first").state(), v1::Job::QUEUED);
  changes.mutable_spec()->mutable_resources()->set_queue("none-such");
  const absl::Status refused = h.Update("first", changes, {"spec.resources.queue"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("there is no queue none-such"));
}

TEST_F(JobUpdates, OfSeveralChangesNoneIsMadeWhenOneIsRefused) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  v1::Job changes;
  changes.mutable_spec()->mutable_resources()->set_priority(7);
  (*changes.mutable_spec()->mutable_labels())["team"] = "nlp";
  EXPECT_FALSE(h.Update("a", changes, {"spec.labels", "spec.resources.ranks"}).ok());
  EXPECT_THAT(h.Job("a").spec().labels(), IsEmpty());
}

TEST_F(JobUpdates, MoreStepsOfATrainingJobComeAfterACheckpoint) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 40);
  h.Take("n0");
  ASSERT_TRUE(h.Update("a", WithSteps(200), {"spec.train.steps"}).ok());
  EXPECT_EQ(h.Job("a").target_step(), 200);
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  StopAt(41);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
  EXPECT_EQ(h.Job("a").step(), 41);
  EXPECT_EQ(h.Job("a").events(0).cause(), "updated");
  EXPECT_EQ(h.Job("a").events(0).lost_steps(), 0);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_EQ(h.Take("n0").back().prepare().spec().train().steps(), 200);
}

TEST_F(JobUpdates, ARunThatReachesItsOldEndMeanwhileGoesOnToTheNewOne) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 99);
  ASSERT_TRUE(h.Update("a", WithSteps(150), {"spec.train.steps"}).ok());
  h.SayStep("n0", "a", 1, 100);
  h.SayCommit("n0", "a", 1, 100, "m100");
  h.SayEnded("n0", "a", 1, testing::kSucceeded);
  h.SayEnded("n1", "a", 1, testing::kSucceeded);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").step(), 100);
}

TEST_F(JobUpdates, FewerStepsThanAreDoneAreRefusedAndWhatIsPassedMeanwhileCounts) {
  h.Run("a", {"n0", "n1"});
  h.SayStep("n0", "a", 1, 50);
  EXPECT_EQ(ReasonOf(h.Update("a", WithSteps(50), {"spec.train.steps"}).status()), "STEPS_DONE");
  ASSERT_TRUE(h.Update("a", WithSteps(51), {"spec.train.steps"}).ok());
  StopAt(52);  // it was in there when the request came
  EXPECT_EQ(h.Job("a").checkpoint().step(), 52);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("a").step(), 52);
  EXPECT_EQ(h.Job("a").target_step(), 52);
  EXPECT_EQ(h.Job("a").spec().train().steps(), 51);
  EXPECT_EQ(h.Job("a").reason(), "finished all 52 steps, of which 51 were asked for");
}

TEST_F(JobUpdates, RanksThatBreakBehindTheLastCheckpointOfFewerStepsEndTheJob) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Update("a", WithSteps(51), {"spec.train.steps"}).ok());
  h.SayCommit("n0", "a", 1, 60, "m60");
  h.SayEnded("n0", "a", 1, testing::kFailed, "died", 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(h.Job("a").target_step(), 60);
}

TEST_F(JobUpdates, StepsOfAWaitingJobChangeAtOnce) {
  ASSERT_TRUE(h.Create(Harness::Request("holds", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  ASSERT_TRUE(h.Update("a", WithSteps(7), {"spec.train.steps"}).ok());
  EXPECT_EQ(h.Job("a").target_step(), 7);
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
}

TEST_F(JobUpdates, OfAJobThatIsOverLabelsAndTtlAloneChange) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  (void)h.Cancel("a");
  EXPECT_EQ(ReasonOf(h.Update("a", WithSteps(7), {"spec.train.steps"}).status()), "JOB_OVER");
  v1::Job changes;
  (*changes.mutable_spec()->mutable_labels())["kept"] = "yes";
  EXPECT_TRUE(h.Update("a", changes, {"spec.labels"}).ok());
  EXPECT_EQ(h.Job("a").spec().labels().at("kept"), "yes");
}

TEST_F(JobUpdates, ASuspendedJobStopsAtACheckpointAndWaitsThroughARestart) {
  h.Run("a", {"n0", "n1"});
  h.Take("n0");
  ASSERT_TRUE(h.Suspend("a").ok());
  ASSERT_TRUE(h.Suspend("a").ok());  // idempotent
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  StopAt(30);
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").events(0).cause(), "suspended");
  h.Pass(120, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  h.RestartController();
  h.Join("n0");
  h.Join("n1");
  h.Pass(5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_THAT(h.core->ExplainJob("jobs/a")->lines(1), HasSubstr("strata resume job a"));
  ASSERT_TRUE(h.Resume("a").ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").step(), 30);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
}

TEST_F(JobUpdates, OthersTakeTheDevicesOfASuspendedJob) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  StopAt(30);
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
}

TEST_F(JobUpdates, AJobResumedWhileItStopsStartsAgainAtOnce) {
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  ASSERT_TRUE(h.Resume("a").ok());
  StopAt(30);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(JobUpdates, AQueuedAndARecoveringJobAreSuspendedAtOnce) {
  h.Run("a", {"n0", "n1"});
  h.SayEnded("n0", "a", 1, testing::kFailed, "crash", 0);
  ASSERT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  ASSERT_TRUE(h.Suspend("a").ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("a").placement_size(), 0);
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  ASSERT_TRUE(h.Create(Harness::Request("c", 2)).ok());
  ASSERT_TRUE(h.Suspend("c").ok());
  EXPECT_EQ(h.Job("c").state(), v1::Job::QUEUED);
  (void)h.Cancel("c");
  EXPECT_EQ(ReasonOf(h.Suspend("c").status()), "JOB_OVER");
  EXPECT_EQ(ReasonOf(h.Resume("c").status()), "JOB_OVER");
}

TEST_F(JobUpdates, ARepeatedRequestIsTheSameThoughItsJobWasUpdated) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  ASSERT_TRUE(h.Update("a", WithSteps(7), {"spec.train.steps"}).ok());
  h.RestartController();
  const auto again = h.Create(Harness::Request("a", 2));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->spec().train().steps(), 7);
  v1::CreateJobRequest other = Harness::Request("a", 2);
  other.mutable_job()->mutable_spec()->mutable_train()->set_steps(8);
  EXPECT_EQ(ReasonOf(h.Create(other).status()), "REQUEST_ID_REUSED");
}

TEST_F(JobUpdates, AJobWithDevicesGoesToAnotherQueueOnlyWithinItsLimit) {
  v1::Policy policy;
  v1::QueuePolicy& small = *policy.add_queues();
  small.set_name("small");
  small.set_max_devices(1);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Run("a", {"n0", "n1"});
  v1::Job changes;
  changes.mutable_spec()->mutable_resources()->set_queue("small");
  const absl::Status refused = h.Update("a", changes, {"spec.resources.queue"}).status();
  EXPECT_EQ(ReasonOf(refused), "QUEUE_LIMIT");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("strata suspend a"));
  ASSERT_TRUE(h.Suspend("a").ok());
  StopAt(30);
  EXPECT_TRUE(h.Update("a", changes, {"spec.resources.queue"}).ok());
}

TEST_F(JobUpdates, OnlyJobsThatAreOverAreDeletedUnlessForced) {
  h.Run("a", {"n0", "n1"});
  EXPECT_EQ(ReasonOf(h.Delete("a")), "JOB_NOT_OVER");
  ASSERT_TRUE(h.Delete("a", /*force=*/true).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  StopAt(20);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.core->FindJob("jobs/a"), nullptr);
  ASSERT_EQ(h.deleted.size(), 1);
  EXPECT_EQ(h.deleted[0].name(), "jobs/a");
  EXPECT_GT(h.deleted[0].resource_version(), 0);
  for (const auto& [key, write] : h.records) EXPECT_THAT(key.second, Not(HasSubstr("jobs/a")));
  EXPECT_EQ(h.Delete("a").code(), absl::StatusCode::kNotFound);
}

TEST_F(JobUpdates, ARecordStaysWhileNodesHoldRanksOfItsName) {
  h.Run("a", {"n0", "n1"});
  (void)h.Cancel("a", WithGrace(0));
  ASSERT_TRUE(h.Delete("a").ok());
  h.Pass(1, {"n0", "n1"});
  EXPECT_NE(h.core->FindJob("jobs/a"), nullptr);
  EXPECT_EQ(ReasonOf(h.Create(Harness::Request("a", 2)).status()), "");  // the same request again
  v1::CreateJobRequest other = Harness::Request("a", 2);
  other.set_request_id("other");
  EXPECT_EQ(ReasonOf(h.Create(other).status()), "NAME_TAKEN");
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.core->FindJob("jobs/a"), nullptr);
  EXPECT_TRUE(h.Create(other).ok());
  h.RestartController();
  EXPECT_EQ(h.Job("a").request_id(), "other");
}

TEST_F(JobUpdates, JobsExpireAfterTheirTtlOrThePolicys) {
  v1::CreateJobRequest own = Harness::Request("own", 1);
  own.mutable_job()->mutable_ttl_after_finished()->set_seconds(100);
  ASSERT_TRUE(h.Create(own).ok());
  v1::CreateJobRequest stays = Harness::Request("stays", 2);
  stays.mutable_job()->mutable_ttl_after_finished()->set_seconds(1'000'000);
  ASSERT_TRUE(h.Create(stays).ok());
  ASSERT_TRUE(h.Create(Harness::Request("over", 2)).ok());
  (void)h.Cancel("own");
  h.SayEnded("n0", "own", 1, kInterrupted);
  (void)h.Cancel("stays", WithGrace(0));
  (void)h.Cancel("over", WithGrace(0));
  v1::Policy policy;
  policy.mutable_scheduling()->set_ttl_after_finished_seconds(30);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  ASSERT_TRUE(h.Create(Harness::Request("soon", 2)).ok());
  (void)h.Cancel("soon", WithGrace(0));
  h.RestartController();
  h.Join("n0");
  h.Join("n1");
  h.Pass(40, {"n0", "n1"});
  EXPECT_EQ(h.core->FindJob("jobs/soon"), nullptr);
  EXPECT_NE(h.core->FindJob("jobs/own"), nullptr);
  EXPECT_EQ(h.core->FindJob("jobs/over"), nullptr) << "it was over before the policy came";
  h.Pass(70, {"n0", "n1"});
  EXPECT_EQ(h.core->FindJob("jobs/own"), nullptr);
  EXPECT_NE(h.core->FindJob("jobs/stays"), nullptr);
  v1::Job changes;
  changes.mutable_ttl_after_finished()->set_seconds(1);
  ASSERT_TRUE(h.Update("stays", changes, {"ttl_after_finished"}).ok());
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.core->FindJob("jobs/stays"), nullptr);
}

TEST_F(JobUpdates, APolicyWithoutATtlKeepsWhatIsStillThere) {
  v1::Policy policy;
  policy.mutable_scheduling()->set_ttl_after_finished_seconds(30);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  (void)h.Cancel("a", WithGrace(0));
  EXPECT_TRUE(h.Job("a").has_expire_time());
  ASSERT_TRUE(h.ApplyPolicy({}).ok());
  EXPECT_FALSE(h.Job("a").has_expire_time());
}

TEST_F(JobUpdates, WhatIsDeletedGoesThoughTheClockWasSetBack) {
  h.Pass(100, {"n0", "n1"});
  ASSERT_TRUE(h.Create(Harness::Request("holds", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  (void)h.Cancel("a");
  Effects effects;
  h.core->OnTick(1.7e9 - 3600, effects);
  ASSERT_TRUE(h.Delete("a").ok());
  EXPECT_EQ(h.core->FindJob("jobs/a"), nullptr);
}

TEST_F(JobUpdates, EventsTellWhatHappenedByWhomAndOutliveTheController) {
  h.Run("a", {"n0", "n1"});
  for (const int64_t step : {10, 20, 30}) {
    h.SayCommit("n0", "a", 1, step, absl::StrCat("m", step));
  }
  ASSERT_TRUE(h.Suspend("a").ok());
  StopAt(31);
  h.RestartController();
  ASSERT_TRUE(h.Resume("a").ok());
  EXPECT_THAT(TypesOf("a"), ElementsAre("CREATED", "STARTED", "RUNNING", "CHECKPOINT", "SUSPENDED",
                                        "CHECKPOINT", "STOPPED", "RESUMED"));
  const auto events = *h.core->JobEvents("jobs/a");
  EXPECT_EQ(events.front()->event.actor(), "users/ann");
  EXPECT_EQ(events.at(2)->event.actor(), "nodes/n0");
  EXPECT_EQ(events.at(4)->event.step(), 30) << "of checkpoints in a row the last";
  EXPECT_EQ(events.at(4)->event.attempt(), 1);
  EXPECT_EQ(h.core->JobEvents("jobs/b").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobUpdates, EventsAreBounded) {
  ASSERT_TRUE(h.Create(Harness::Request("holds", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("b", 2)).ok());
  for (int i = 0; i < 600; ++i) {
    v1::Job changes;
    changes.mutable_spec()->mutable_resources()->set_priority(-1 - i);
    ASSERT_TRUE(h.Update("b", changes, {"spec.resources.priority"}).ok());
  }
  EXPECT_EQ(h.core->JobEvents("jobs/b")->size(), 500);
  size_t rows = 0;
  for (const auto& [key, write] : h.records) rows += key.second.find("jobs/b/") == 0 ? 1 : 0;
  EXPECT_EQ(rows, 500);
}

TEST_F(JobUpdates, ANodeIsDeletedOnceItIsSilentAndHoldsNothing) {
  h.Run("a", {"n0", "n1"});
  EXPECT_EQ(ReasonOf(h.DeleteNode("n1")), "NODE_IN_USE");
  (void)h.Cancel("a", WithGrace(0));
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.EndSession("n1");
  h.Pass(10, {"n0"});
  EXPECT_EQ(ReasonOf(h.DeleteNode("n1")), "NODE_IN_USE") << "its ranks may live";
  h.Pass(60, {"n0"});
  ASSERT_TRUE(h.DeleteNode("n1").ok());
  EXPECT_EQ(h.DeleteNode("n1").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(h.Create(Harness::Request("b", 1)).ok());
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(ReasonOf(h.Create(Harness::Request("c", 2)).status()), "INFEASIBLE");
  h.RestartController();
  EXPECT_EQ(h.core->Nodes().size(), 1);
  h.Join("n1");  // it may come back as a new one
  EXPECT_EQ(h.core->Nodes().size(), 2);
}

TEST_F(JobUpdates, ThatANodeGoesAndStaysAfterAllIsTold) {
  h.told_nodes.clear();
  v1::AgentMessage leaving;
  leaving.mutable_leaving();
  h.Say("n0", leaving);
  ASSERT_EQ(h.told_nodes.size(), 1);
  EXPECT_TRUE(h.told_nodes[0].leaving());
  h.Join("n0");
  ASSERT_EQ(h.told_nodes.size(), 2);
  EXPECT_FALSE(h.told_nodes[1].leaving());
  EXPECT_GT(h.told_nodes[1].resource_version(), h.told_nodes[0].resource_version());
}

TEST_F(JobUpdates, NodesChangesAreToldWithTheirVersions) {
  h.told_nodes.clear();
  ASSERT_TRUE(h.Drain("n0", true, "disk").ok());
  h.EndSession("n1");
  h.Pass(10, {"n0"});
  ASSERT_EQ(h.told_nodes.size(), 2);
  EXPECT_EQ(h.told_nodes[0].drain_reason(), "disk");
  EXPECT_EQ(h.told_nodes[1].state(), v1::Node::LOST);
  EXPECT_GT(h.told_nodes[1].resource_version(), h.told_nodes[0].resource_version());
  h.RestartController();
  EXPECT_EQ(h.Node("n0").drain_reason(), "disk");
  EXPECT_GE(h.core->resource_version(), h.told_nodes[1].resource_version());
}

}  // namespace
}  // namespace strata::controller
