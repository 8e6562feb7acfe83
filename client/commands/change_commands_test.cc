// cancel, update, suspend, resume, delete, events, and what selects jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/commands/fake_cluster.h"
#include "client/commands/selector.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChangeCommandsTest : public FakeClusterTest {
 protected:
  static v1::Job Named(const std::string& name) {
    v1::Job job;
    job.set_name("jobs/" + name);
    job.set_state(v1::Job::RUNNING);
    job.set_etag("\"1\"");
    (*job.mutable_spec()->mutable_labels())["team"] = "nlp";
    return job;
  }
};

TEST_F(ChangeCommandsTest, SelectorsAreFilters) {
  EXPECT_EQ(*FilterOfSelector("team=nlp"), "spec.labels.team = \"nlp\"");
  EXPECT_EQ(*FilterOfSelector("team==a b,kind!=x, urgent,!old"),
            "spec.labels.team = \"a b\" AND spec.labels.kind != \"x\" AND spec.labels.urgent:* AND "
            "NOT spec.labels.old:*");
  for (const char* bad : {"", "=x", "a b=x", "!a=b", "a,,b"}) {
    EXPECT_FALSE(FilterOfSelector(bad).ok()) << bad;
  }
}

TEST_F(ChangeCommandsTest, GetJobsAsksForWhatIsSelected) {
  v1::ListJobsRequest asked;
  server_.list = [&](const v1::ListJobsRequest& request, v1::ListJobsResponse* response) {
    asked = request;
    *response->add_jobs() = Named("a");
    return FakeAnswer();
  };
  const Outcome got = Run({"get", "jobs", "-l", "team=nlp", "--filter", "state = RUNNING",
                           "--order-by", "create_time desc", "--show-labels"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(asked.filter(), "spec.labels.team = \"nlp\" AND (state = RUNNING)");
  EXPECT_EQ(asked.order_by(), "create_time desc");
  EXPECT_EQ(asked.view(), v1::JOB_VIEW_BASIC);
  EXPECT_THAT(got.out, HasSubstr("team=nlp"));
  EXPECT_THAT(got.out, HasSubstr("ATTEMPT"));
  EXPECT_EQ(Run({"get", "jobs", "-o", "json"}).code, 0);
  EXPECT_EQ(asked.view(), v1::JOB_VIEW_FULL);
  EXPECT_EQ(Run({"get", "nodes", "-l", "team=nlp"}).code, 2);
  // As kubectl's users type it.
  server_.Put(Named("b"));
  EXPECT_EQ(Run({"get", "jobs", "b", "-o", "name"}).out, "b\n");
  EXPECT_EQ(Run({"get", "job", "-o", "name"}).out, "a\n");
}

TEST_F(ChangeCommandsTest, CancelTellsItsGraceAndReason) {
  std::vector<v1::CancelJobRequest> asked;
  server_.cancel = [&](const v1::CancelJobRequest& request, v1::Job* job) {
    asked.push_back(request);
    *job = Named(request.name().substr(5));
    return FakeAnswer();
  };
  EXPECT_EQ(Run({"cancel", "a", "b", "--grace", "90s", "--reason", "wrong data"}).code, 0);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[1].name(), "jobs/b");
  EXPECT_EQ(asked[1].grace().seconds(), 90);
  EXPECT_EQ(asked[1].reason(), "wrong data");
  EXPECT_EQ(Run({"cancel", "a", "--now"}).code, 0);
  EXPECT_TRUE(asked[2].has_grace());
  EXPECT_EQ(asked[2].grace().seconds(), 0);
  EXPECT_EQ(Run({"cancel", "a"}).code, 0);
  EXPECT_FALSE(asked[3].has_grace());
  EXPECT_THAT(Run({"cancel", "a", "--grace", "soon"}).err, HasSubstr("is no duration"));
  EXPECT_EQ(Run({"cancel"}).code, 2);
  EXPECT_EQ(Run({"cancel", "a", "-l", "team=nlp"}).code, 2);
  EXPECT_EQ(Run({"cancel", "a", "--now", "--grace", "1s"}).code, 2);
}

TEST_F(ChangeCommandsTest, ASelectionIsCancelledAtOnceOrOnlyTold) {
  v1::CancelJobsRequest asked;
  server_.cancel_jobs = [&](const v1::CancelJobsRequest& request,
                            v1::CancelJobsResponse* response) {
    asked = request;
    *response->add_jobs() = Named("a");
    return FakeAnswer();
  };
  const Outcome told = Run({"cancel", "-l", "team=nlp", "--dry-run"});
  EXPECT_THAT(told.err, HasSubstr("job a would be cancelled"));
  EXPECT_TRUE(asked.validate_only());
  EXPECT_EQ(asked.filter(), "spec.labels.team = \"nlp\"");
  EXPECT_EQ(Run({"cancel", "--filter", "state = QUEUED", "-o", "name"}).out, "a\n");
  EXPECT_FALSE(asked.validate_only());
}

TEST_F(ChangeCommandsTest, UpdateSendsWhatIsNamedAndTriesAgainWhenOthersCameBefore) {
  server_.Put(Named("a"));
  std::vector<v1::UpdateJobRequest> asked;
  server_.update = [&](const v1::UpdateJobRequest& request, v1::Job* job) -> FakeAnswer {
    asked.push_back(request);
    *job = Named("a");
    if (asked.size() > 1) return {};
    google::rpc::ErrorInfo info;
    info.set_reason("ETAG_MISMATCH");
    google::rpc::Status status;
    status.add_details()->PackFrom(info);
    return {10, "has changed since", status.SerializeAsString()};
  };
  const Outcome got = Run({"update", "a", "--priority", "-5", "--steps", "2k", "--label", "run=7",
                           "--label", "team-", "--time-limit", "4h", "--ttl", "none"});
  EXPECT_EQ(got.code, 0) << got.err;
  ASSERT_EQ(asked.size(), 2u);
  const v1::UpdateJobRequest& last = asked.back();
  EXPECT_THAT(last.update_mask().paths(),
              ElementsAre("spec.resources.priority", "spec.train.steps", "spec.labels",
                          "spec.time_limit", "ttl_after_finished"));
  EXPECT_EQ(last.job().spec().resources().priority(), -5);
  EXPECT_EQ(last.job().spec().train().steps(), 2000);
  EXPECT_EQ(last.job().spec().labels_size(), 1);
  EXPECT_EQ(last.job().spec().labels().at("run"), "7");
  EXPECT_EQ(last.job().spec().time_limit().seconds(), 14400);
  EXPECT_FALSE(last.job().has_ttl_after_finished());
  EXPECT_EQ(last.job().etag(), "\"1\"");
  EXPECT_THAT(Run({"update", "a"}).err, HasSubstr("nothing to change"));
  EXPECT_EQ(Run({"update", "a", "--label", "team"}).code, 2);
}

TEST_F(ChangeCommandsTest, SuspendAndResumeOfJobsAreNotThatOfNodes) {
  server_.Put(Named("a"));
  v1::Node node;
  node.set_name("nodes/a");
  node.set_drained(true);
  server_.Put(node);
  EXPECT_THAT(Run({"suspend", "a"}).err, HasSubstr("strata resume job a"));
  EXPECT_EQ(Run({"resume", "job", "a"}).code, 0);
  EXPECT_EQ(server_.calls("ResumeJob"), 1);
  EXPECT_EQ(Run({"resume", "jobs/a"}).code, 0);
  EXPECT_EQ(server_.calls("ResumeJob"), 2);
  EXPECT_EQ(server_.calls("ResumeNode"), 0);
  EXPECT_EQ(Run({"resume", "a"}).code, 0);
  EXPECT_EQ(server_.calls("ResumeNode"), 1);
  const Outcome none = Run({"resume", "b"});
  EXPECT_EQ(none.code, 5);
  EXPECT_THAT(none.err, HasSubstr("strata resume job b"));
}

TEST_F(ChangeCommandsTest, DeleteNamesWhatItDeletes) {
  server_.Put(Named("a"));
  v1::Node node;
  node.set_name("nodes/n0");
  server_.Put(node);
  EXPECT_THAT(Run({"delete", "job", "a"}).err, HasSubstr("job a is deleted; its files stay"));
  EXPECT_EQ(Run({"delete", "job", "a"}).code, 5);
  EXPECT_THAT(Run({"delete", "node", "n0"}).err, HasSubstr("node n0 is deleted"));
  EXPECT_EQ(Run({"delete", "node", "n0", "--force"}).code, 2);
  EXPECT_EQ(Run({"delete", "queue", "x"}).code, 2);
}

TEST_F(ChangeCommandsTest, SeveralNamesAreOneList) {
  for (const char* name : {"a", "b"}) server_.Put(Named(name));
  const Outcome suspended = Run({"suspend", "a", "b", "-o", "json"});
  const auto list = nlohmann::json::parse(suspended.out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["name"], "b");
  EXPECT_EQ(nlohmann::json::parse(Run({"resume", "job", "a", "-o", "json"}).out)["name"], "a");
  EXPECT_EQ(Run({"resume", "job", "a", "b", "-o", "name"}).out, "a\nb\n");
  // What was changed before one fails is told.
  const Outcome partly = Run({"suspend", "a", "c", "b", "-o", "json"});
  EXPECT_EQ(partly.code, 5);
  EXPECT_EQ(nlohmann::json::parse(partly.out).size(), 1u);
  EXPECT_THAT(partly.err, HasSubstr("no job c"));
  EXPECT_EQ(Run({"delete", "job", "a", "b", "-o", "name"}).out, "a\nb\n");
  server_.Put(Named("a"));
  EXPECT_TRUE(nlohmann::json::parse(Run({"delete", "job", "a", "-o", "json"}).out)["deleted"]);
}

TEST_F(ChangeCommandsTest, WhatTheServerRefusesIsNamedAsItWasTyped) {
  server_.Put(Named("a"));
  server_.update = [](const auto&, auto*) -> FakeAnswer {
    google::rpc::BadRequest request;
    request.add_field_violations()->set_field("job.spec.resources.priority");
    request.mutable_field_violations(0)->set_description("is too much");
    google::rpc::Status status;
    status.add_details()->PackFrom(request);
    return {3, "job.spec.resources.priority: is too much", status.SerializeAsString()};
  };
  const Outcome got = Run({"update", "a", "--priority", "7"});
  EXPECT_EQ(got.code, 2);
  EXPECT_EQ(got.err, "--priority: is too much\n");
}

TEST_F(ChangeCommandsTest, EventsComeOldestFirst) {
  v1::Job job = Named("a");
  for (const char* type : {"CREATED", "STARTED"}) {
    v1::JobEvent& event = *job.add_events();
    event.set_type(type);
    event.set_attempt(1);
    event.set_reason("why");
    event.set_actor("users/ann");
  }
  server_.Put(job);
  const Outcome table = Run({"events", "a"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_LT(table.out.find("CREATED"), table.out.find("STARTED"));
  EXPECT_THAT(table.out, HasSubstr("users/ann"));
  const auto json = nlohmann::json::parse(Run({"events", "a", "-o", "json"}).out);
  EXPECT_EQ(json[1]["type"], "STARTED");
  EXPECT_EQ(json[1]["attempt"], 1);
  EXPECT_THAT(Run({"describe", "job", "a"}).out, HasSubstr("STARTED  attempt 1"));
  EXPECT_EQ(Run({"events", "b"}).code, 5);
}

TEST_F(ChangeCommandsTest, LogsGoOnBehindTheLastLine) {
  server_.Put(Named("a"));
  std::vector<v1::StreamLogsRequest> asked;
  server_.logs = [&](const v1::StreamLogsRequest& request, const auto& send) -> FakeAnswer {
    asked.push_back(request);
    v1::LogLine line;
    line.set_text(asked.size() == 1 ? "one" : "two");
    line.set_cursor(asked.size() == 1 ? "1" : "2");
    line.set_rank(-1);
    if (asked.size() != 2) send(line);
    if (asked.size() == 1) return {14, "going away"};
    if (asked.size() > 2) return {};
    google::rpc::ErrorInfo info;
    info.set_reason("LINES_LOST");
    google::rpc::Status status;
    status.add_details()->PackFrom(info);
    return {11, "no longer kept", status.SerializeAsString()};
  };
  const Outcome got =
      Run({"logs", "a", "-f", "--tail", "5", "--rank", "0", "--rank", "2", "--since", "10m"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "one\ntwo\n");
  EXPECT_THAT(got.err, HasSubstr("lines are missing here"));
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].tail(), 5);
  EXPECT_THAT(asked[0].ranks(), ElementsAre(0, 2));
  EXPECT_GT(asked[0].since().seconds(), 1'700'000'000);
  EXPECT_EQ(asked[1].cursor(), "1");
  EXPECT_EQ(asked[1].tail(), 0);
  EXPECT_EQ(asked[2].cursor(), "");
  EXPECT_EQ(Run({"logs", "a", "--since", "yesterday"}).code, 2);
}

}  // namespace
}  // namespace strata::client
