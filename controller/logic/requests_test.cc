// What users ask for: new jobs, cancellations, explanations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/refusal.h"
#include "controller/logic/testing.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::controller {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Harness;
using ::testing::HasSubstr;
using testing::kInterrupted;
using ::testing::SizeIs;

std::string FieldOf(const absl::Status& status) {
  google::rpc::BadRequest request;
  const auto payload = status.GetPayload(kBadRequestUrl);
  if (!payload.has_value() || !request.ParseFromString(std::string(*payload))) return "";
  return request.field_violations_size() == 1 ? request.field_violations(0).field() : "";
}

TEST(CreateJob, ARepeatedRequestGivesTheSameJob) {
  Harness h;
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  const int64_t version = h.core->resource_version();
  const auto again = h.Create(Harness::Request("a", 2));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->name(), "jobs/a");
  EXPECT_EQ(h.core->resource_version(), version);
  EXPECT_THAT(h.core->Jobs(), SizeIs(1));
  h.RestartController();
  EXPECT_TRUE(h.Create(Harness::Request("a", 2)).ok());
}

TEST(CreateJob, OfTwoBetweenTwoTicksTheLaterOneIsLater) {
  Harness h;
  ASSERT_TRUE(h.Create(Harness::Request("b", 1)).ok());
  h.Work(0.1);
  ASSERT_TRUE(h.Create(Harness::Request("a", 1)).ok());
  EXPECT_LT(h.Job("b").create_time().nanos(), h.Job("a").create_time().nanos());
}

TEST(CreateJob, ARequestIdWithOtherContentIsRefused) {
  Harness h;
  (void)h.Create(Harness::Request("a", 2));
  v1::CreateJobRequest other = Harness::Request("a", 1);
  const absl::Status status = h.Create(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status), "REQUEST_ID_REUSED");
}

TEST(CreateJob, ATakenNameIsRefusedAlsoWhenItsJobIsFinished) {
  Harness h;
  (void)h.Create(Harness::Request("a", 2));
  (void)h.Cancel("a");
  v1::CreateJobRequest request = Harness::Request("a", 2);
  request.set_request_id("another");
  const absl::Status status = h.Create(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status), "NAME_TAKEN");
  EXPECT_THAT(std::string(status.message()), HasSubstr("CANCELLED"));
}

TEST(CreateJob, BadRequestsNameTheirField) {
  struct Case {
    const char* field;
    void (*spoil)(v1::CreateJobRequest&);
  };
  const Case cases[] = {
      {"name", [](v1::CreateJobRequest& r) { r.mutable_job()->set_name("a"); }},
      {"name", [](v1::CreateJobRequest& r) { r.mutable_job()->set_name("jobs/A_b"); }},
      {"name", [](v1::CreateJobRequest& r) { r.mutable_job()->set_name("jobs/-a"); }},
      {"name",
       [](v1::CreateJobRequest& r) { r.mutable_job()->set_name("jobs/" + std::string(64, 'a')); }},
      {"name", [](v1::CreateJobRequest& r) { r.mutable_job()->set_name("jobs/../x"); }},
      {"spec", [](v1::CreateJobRequest& r) { r.mutable_job()->clear_spec(); }},
      {"spec",
       [](v1::CreateJobRequest& r) {
         r.mutable_job()->mutable_spec()->set_name(std::string(2 << 20, 'x'));
       }},
      {"directory", [](v1::CreateJobRequest& r) { r.mutable_job()->set_directory("here"); }},
      {"train.steps",
       [](v1::CreateJobRequest& r) {
         r.mutable_job()->mutable_spec()->mutable_train()->set_steps(0);
       }},
      {"resources.ranks",
       [](v1::CreateJobRequest& r) {
         r.mutable_job()->mutable_spec()->mutable_resources()->set_ranks(0);
       }},
      {"request_id", [](v1::CreateJobRequest& r) { r.set_request_id(std::string(200, 'x')); }},
  };
  for (const Case& bad : cases) {
    Harness h;
    v1::CreateJobRequest request = Harness::Request("a", 1);
    bad.spoil(request);
    const absl::Status status = h.Create(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.field));
    EXPECT_TRUE(status.GetPayload(kBadRequestUrl).has_value());
    EXPECT_THAT(h.core->Jobs(), SizeIs(0));
  }
}

TEST(CreateJob, ABadNameIsAnsweredWithTheNearestGoodOne) {
  Harness h;
  v1::CreateJobRequest request = Harness::Request("a", 1);
  request.mutable_job()->set_name("jobs/My_Bible.v2");
  EXPECT_THAT(std::string(h.Create(request).status().message()),
              HasSubstr("— my-bible-v2 would do"));
}

TEST(CreateJob, WhatNoStateOfTheClusterCanRunIsRefusedWithTheArithmetic) {
  Harness h;
  h.Join("n0");
  h.Join("n1", {}, 2);
  const absl::Status status = h.Create(Harness::Request("a", 5)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "INFEASIBLE");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 5 devices of kind cpu; the whole cluster holds 3"),
                    HasSubstr("nearest: data 1 instead of 5")));
}

v1::Policy WithRoots(const std::vector<std::string>& roots) {
  v1::Policy policy;
  v1::ProjectPolicy& project = *policy.add_projects();
  project.set_name("nlp");
  project.mutable_roots()->Add(roots.begin(), roots.end());
  return policy;
}

v1::CreateJobRequest InProject(const std::string& name) {
  v1::CreateJobRequest request = Harness::Request(name, 1);
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.set_project("nlp");
  spec.mutable_data()->add_train()->set_path("/data/nlp/train.txt");
  spec.mutable_data()->mutable_validation()->set_path("/data/nlp/validation.txt");
  spec.mutable_model()->set_from("/models/nlp/base");
  spec.mutable_checkpoint()->set_directory("/scratch/nlp/a/checkpoints");
  request.mutable_job()->set_directory("/scratch/nlp/a");
  return request;
}

TEST(CreateJob, PathsOutsideOfTheProjectsRootsAreRefusedByField) {
  Harness h;
  h.Join("n0");
  ASSERT_TRUE(h.ApplyPolicy(WithRoots({"/data/nlp", "/models/nlp/", "/scratch/nlp"})).ok());
  struct Case {
    const char* field;
    void (*spoil)(v1::Job&);
  };
  const Case cases[] = {
      {"data.train[0].path",
       [](v1::Job& j) {
         j.mutable_spec()->mutable_data()->mutable_train(0)->set_path("/etc/shadow");
       }},
      {"data.validation.path",
       [](v1::Job& j) {
         j.mutable_spec()->mutable_data()->mutable_validation()->set_path("/data/nlp/../hr/wages");
       }},
      {"model.from",
       [](v1::Job& j) { j.mutable_spec()->mutable_model()->set_from("/models/nlp2"); }},
      {"train.start_from",
       [](v1::Job& j) { j.mutable_spec()->mutable_train()->set_start_from("/scratch/hr/x"); }},
      {"checkpoint.directory",
       [](v1::Job& j) { j.mutable_spec()->mutable_checkpoint()->set_directory("/var/lib"); }},
      {"directory", [](v1::Job& j) { j.set_directory("/scratch"); }}};
  for (const Case& bad : cases) {
    v1::CreateJobRequest request = InProject("a");
    bad.spoil(*request.mutable_job());
    const absl::Status status = h.Create(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_EQ(FieldOf(status), bad.field) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/data/nlp, /models/nlp/, /scratch/nlp"));
  }
  ASSERT_TRUE(h.Create(InProject("a")).ok());
  const auto messages = h.Take("n0");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(messages[0].prepare().roots(),
              ::testing::ElementsAre("/data/nlp", "/models/nlp/", "/scratch/nlp"));
}

TEST(CreateJob, OtherProjectsHaveOtherRootsAndMayHaveNone) {
  Harness h;
  h.Join("n0");
  ASSERT_TRUE(h.ApplyPolicy(WithRoots({"/data/nlp"})).ok());
  v1::CreateJobRequest request = InProject("a");
  request.mutable_job()->mutable_spec()->clear_project();
  ASSERT_TRUE(h.Create(request).ok());
  const auto messages = h.Take("n0");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(messages[0].prepare().roots(), SizeIs(0));
}

TEST(CreateJob, ChangedRootsAreAChangeOfThePolicy) {
  Harness h;
  ASSERT_TRUE(h.ApplyPolicy(WithRoots({"/data/nlp"})).ok());
  const auto changed = h.ApplyPolicy(WithRoots({"/data/nlp", "/more"}));
  ASSERT_TRUE(changed.ok());
  std::string detail;
  for (const v1::PolicyChange& change : changed->changes()) detail += change.detail();
  EXPECT_THAT(detail, HasSubstr("roots /data/nlp -> /data/nlp /more"));
  EXPECT_THAT(h.core->policy().projects(1).roots(), SizeIs(2));
}

v1::CreateJobRequest In(const std::string& name, const std::string& directory,
                        const std::string& checkpoints) {
  v1::CreateJobRequest request = Harness::Request(name, 1);
  request.mutable_job()->set_directory(directory);
  if (!checkpoints.empty()) {
    request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_directory(checkpoints);
  }
  return request;
}

TEST(CreateJob, FoldersThatOverlapThoseOfALiveJobAreRefusedWithTheirField) {
  Harness h;
  ASSERT_TRUE(h.Create(In("a", "/runs/a", "/fast/a")).ok());
  struct Case {
    const char *directory, *checkpoints, *field;
  };
  const Case cases[] = {
      {"/runs/a", "/other", "directory"},
      {"/runs/./x/..//a/", "/other", "directory"},
      {"/runs/a/deeper", "/other", "directory"},
      {"/runs", "/other", "directory"},
      {"/", "/other", "directory"},
      {"/runs/b", "/fast/a", "checkpoint.directory"},
      {"/runs/b", "/fast/a/deeper", "checkpoint.directory"},
      {"/runs/b", "/fast", "checkpoint.directory"},
      {"/runs/b", "/runs/a/checkpoints", "checkpoint.directory"},
      {"/runs/b", "../a", "checkpoint.directory"},
      {"/fast/a", "/other", "directory"},
  };
  for (const bool only_check : {true, false}) {
    for (const Case& bad : cases) {
      v1::CreateJobRequest request = In("b", bad.directory, bad.checkpoints);
      request.set_validate_only(only_check);
      const absl::Status status = h.Create(request).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << bad.directory;
      EXPECT_EQ(ReasonOf(status), "DIRECTORY_IN_USE");
      EXPECT_EQ(FieldOf(status), bad.field) << bad.directory << " " << bad.checkpoints;
      EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to job a"));
    }
  }
  EXPECT_TRUE(h.Create(In("b", "/runs/ab", "/fast/ab")).ok());
  EXPECT_TRUE(h.Create(In("c", "/runs/c", "")).ok());
}

TEST(CreateJob, FoldersOfOtherOwnersKeepNobodyOutOfWhatLiesInThem) {
  Harness h;
  const auto of = [](const std::string& owner, v1::CreateJobRequest request) {
    request.mutable_job()->set_owner(owner);
    return request;
  };
  ASSERT_TRUE(h.Create(of("users/eve", In("greedy", "/", "/data/ann/runs"))).ok());
  ASSERT_TRUE(h.Create(of("users/ann", In("a", "/data/ann/runs/a", ""))).ok());
  ASSERT_TRUE(h.Create(of("users/bob", In("b", "/data", "/scratch/b"))).ok());
  for (const char* same : {"/data/ann/runs/a", "/data/ann/runs/a/checkpoints"}) {
    const absl::Status status = h.Create(of("users/mal", In("probe", same, "/tmp/e"))).status();
    EXPECT_EQ(ReasonOf(status), "DIRECTORY_IN_USE");
    EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to a job of somebody else"));
  }
  EXPECT_EQ(ReasonOf(h.Create(of("users/ann", In("c", "/data/ann/runs/a/b", ""))).status()),
            "DIRECTORY_IN_USE");
}

TEST(CreateJob, TheFoldersOfAnEndedJobMayBeUsedAgain) {
  Harness h;
  (void)h.Create(In("a", "/runs/a", ""));
  h.RestartController();
  EXPECT_EQ(ReasonOf(h.Create(In("b", "/runs/a", "")).status()), "DIRECTORY_IN_USE");
  (void)h.Cancel("a");
  EXPECT_TRUE(h.Create(In("b", "/runs/a", "")).ok());
  EXPECT_EQ(ReasonOf(h.Create(In("c", "/runs/a", "")).status()), "DIRECTORY_IN_USE");
}

TEST(CreateJob, ValidateOnlyChangesNothing) {
  Harness h;
  h.Join("n0");
  v1::CreateJobRequest request = Harness::Request("a", 1);
  request.set_validate_only(true);
  EXPECT_TRUE(h.Create(request).ok());
  EXPECT_THAT(h.core->Jobs(), SizeIs(0));
  request.mutable_job()->mutable_spec()->mutable_resources()->set_ranks(2);
  EXPECT_EQ(ReasonOf(h.Create(request).status()), "INFEASIBLE");
}

TEST(CreateJob, TheOldestFinishedJobMakesRoom) {
  Harness h;
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(h.Create(Harness::Request(absl::StrCat("j", i), 1)).ok());
  }
  EXPECT_EQ(ReasonOf(h.Create(Harness::Request("more", 1)).status()), "TOO_MANY_JOBS");
  (void)h.Cancel("j7");
  (void)h.Cancel("j3");
  EXPECT_TRUE(h.Create(Harness::Request("more", 1)).ok());
  EXPECT_EQ(h.core->FindJob("jobs/j7"), nullptr);
  EXPECT_NE(h.core->FindJob("jobs/j3"), nullptr);
  h.RestartController();
  EXPECT_EQ(h.core->FindJob("jobs/j7"), nullptr);
  EXPECT_NE(h.core->FindJob("jobs/more"), nullptr);
}

TEST(CreateJob, PriorityThenAgeDecidesWhoIsPlacedFirst) {
  Harness h;
  (void)h.Create(Harness::Request("old", 1));
  (void)h.Create(Harness::Request("young", 1));
  v1::CreateJobRequest request = Harness::Request("urgent", 1);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(5);
  (void)h.Create(request);
  h.Join("n0");
  EXPECT_EQ(h.Job("urgent").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("old").state(), v1::Job::QUEUED);
  h.Join("n1");
  EXPECT_EQ(h.Job("old").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("young").state(), v1::Job::QUEUED);
}

TEST(CancelJob, AQueuedJobEndsAtOnce) {
  Harness h;
  (void)h.Create(Harness::Request("a", 1));
  const auto job = h.Cancel("a");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state(), v1::Job::CANCELLED);
}

TEST(CancelJob, ARunningJobCommitsAndEndsWhenConfirmed) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  h.Run("a", {"n0", "n1"});
  ASSERT_TRUE(h.Cancel("a").ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  h.SayStopping("n0", "a", 1, 32);
  h.SayStopping("n1", "a", 1, 33);
  EXPECT_EQ(h.Take("n0").back().stop_after().step(), 33);
  EXPECT_EQ(h.Take("n1").back().stop_after().step(), 33);
  h.SayStopping("n0", "a", 1, 33);  // a repetition is answered
  EXPECT_EQ(h.Take("n0").back().stop_after().step(), 33);
  h.SayCommit("n0", "a", 1, 33, "m33");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 33);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_EQ(h.Job("a").events(0).cause(), "user");
}

TEST(CancelJob, ARunningJobThatCannotCommitEndsAfterABound) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  (void)h.Cancel("a");
  h.Pass(59, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Take("n0");
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_FALSE(h.Take("n0").front().stop().checkpoint());
  EXPECT_EQ(h.Node("n0").free(), 0);  // until it says that the ranks are gone
}

TEST(CancelJob, AWishSurvivesTheController) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  (void)h.Cancel("a");
  h.RestartController();
  h.Take("n0");
  h.Reconnect("n0", {testing::Held("a", 1, {0}, true)});
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
}

TEST(CancelJob, AFailureWhileBeingCancelledIsTheEnd) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  h.Run("a", {"n0", "n1"});
  (void)h.Cancel("a");
  h.SayEnded("n0", "a", 1, v1::Finished::FAILED, "crash", 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_FALSE(h.Take("n1").back().stop().checkpoint());
}

TEST(CancelJob, AFinishedJobIsReturnedUnchanged) {
  Harness h;
  (void)h.Create(Harness::Request("a", 1));
  (void)h.Cancel("a");
  const int64_t version = h.core->resource_version();
  const auto again = h.Cancel("a");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->resource_version(), version);
  EXPECT_EQ(h.Cancel("nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST(CancelJob, AStartingJobEndsAtOnceAndItsDevicesAreFreeWhenConfirmed) {
  Harness h;
  h.Join("n0");
  (void)h.Create(Harness::Request("a", 1));
  EXPECT_EQ(h.Cancel("a")->state(), v1::Job::CANCELLED);
  EXPECT_TRUE(h.Take("n0").back().has_stop());
  EXPECT_EQ(h.Node("n0").free(), 0);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Node("n0").free(), 1);
}

TEST(ExplainJob, SaysWhyItWaitsAndWhereItRuns) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  h.Run("a", {"n0", "n1"});
  (void)h.Create(Harness::Request("b", 1));
  const auto waits = h.core->ExplainJob("jobs/b");
  ASSERT_TRUE(waits.ok());
  const std::string why = absl::StrJoin(waits->lines(), "\n");
  EXPECT_THAT(why, HasSubstr("It waits: needs 1 cpu device"));
  EXPECT_THAT(why, HasSubstr("It starts when a (2 devices, time left unknown) ends."));
  EXPECT_THAT(waits->lines(), Contains("n0 is used by a."));
  EXPECT_EQ(waits->state(), v1::Job::QUEUED);
  EXPECT_EQ(waits->queue_position(), 1);
  EXPECT_EQ(waits->devices_wanted(), 1);
  EXPECT_EQ(waits->devices_free(), 0);
  EXPECT_FALSE(waits->has_expected_start_time());  // a's end is not known
  ASSERT_EQ(waits->blockers_size(), 2);
  EXPECT_EQ(waits->blockers(0).code(), "DEVICES");
  EXPECT_EQ(waits->blockers(1).subject(), "jobs/a");
  const auto runs = h.core->ExplainJob("jobs/a");
  EXPECT_EQ(runs->layout().why(), "first in the queue that fits");
  EXPECT_EQ(runs->queue_position() + runs->blockers_size(), 0);
  EXPECT_THAT(runs->lines(), Contains("Attempt 1 of its ranks is on n0 (rank 0), n1 (rank 1)."));
  h.EndSession("n1");
  h.Pass(5, {"n0"});
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n"),
              HasSubstr("n1 has not been heard from"));
  EXPECT_EQ(h.core->ExplainJob("jobs/nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST(ExplainJob, NamesWhatBlocksByCode) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  v1::Policy policy;
  v1::QueuePolicy& queue = *policy.add_queues();
  queue.set_name("small");
  queue.set_max_devices(1);
  v1::ProjectPolicy& project = *policy.add_projects();
  project.set_name("nlp");
  (*project.mutable_quota())["cpu"] = 1;
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  v1::CreateJobRequest over_queue = Harness::Request("q", 2), over_quota = Harness::Request("p", 2);
  over_queue.mutable_job()->mutable_spec()->mutable_resources()->set_queue("small");
  over_quota.mutable_job()->mutable_spec()->set_project("nlp");
  ASSERT_TRUE(h.Create(over_queue).ok());
  ASSERT_TRUE(h.Create(over_quota).ok());
  const auto q = h.core->ExplainJob("jobs/q"), p = h.core->ExplainJob("jobs/p");
  EXPECT_EQ(q->blockers(0).code(), "QUEUE_LIMIT");
  EXPECT_EQ(q->blockers(0).subject(), "queues/small");
  EXPECT_EQ(p->blockers(0).code(), "QUOTA");
  EXPECT_EQ(p->blockers(0).subject(), "projects/nlp");
  EXPECT_EQ(p->queue_position(), 2);
  EXPECT_EQ(p->devices_free(), 2);
  ASSERT_TRUE(h.Drain("n1").ok());
  (void)h.Create(Harness::Request("d", 2));
  const auto d = h.core->ExplainJob("jobs/d");
  EXPECT_EQ(d->blockers(d->blockers_size() - 1).code(), "DRAINING");
  EXPECT_EQ(d->blockers(d->blockers_size() - 1).subject(), "nodes/n1");
}

TEST(ExplainJob, EstimatesTheStartBehindJobsOfAKnownPace) {
  Harness h;
  h.Join("n0");
  h.Run("a", {"n0"});
  for (int64_t step = 1; step <= 10; ++step) {
    h.Pass(1, {"n0"});
    h.SayStep("n0", "a", 1, step);
  }
  (void)h.Create(Harness::Request("b", 1));
  const auto b = h.core->ExplainJob("jobs/b");
  ASSERT_TRUE(b->has_expected_start_time());
  (void)h.Create(Harness::Request("c", 1));
  const auto c = h.core->ExplainJob("jobs/c");
  EXPECT_EQ(c->blockers(0).code(), "RESERVATION");
  EXPECT_EQ(c->blockers(0).subject(), "jobs/b");
  EXPECT_EQ(c->queue_position(), 2);
  EXPECT_FALSE(c->has_expected_start_time());
}

}  // namespace
}  // namespace strata::controller
