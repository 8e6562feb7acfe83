// apply, get projects and queues, drain, resume, describe node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands/fake_cluster.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

class OperatorCommandsTest : public FakeClusterTest {
 protected:
  std::string Write(const std::string& text) {
    const std::string path = testing::TempDir() + "operator-commands-policy.yaml";
    std::ofstream(path) << text;
    return path;
  }
  static v1::Node NodeWith(const std::string& name, const std::string& job) {
    v1::Node node;
    node.set_name("nodes/" + name);
    node.set_state(v1::Node::READY);
    node.set_device("cpu");
    node.set_devices(1);
    if (!job.empty()) node.add_jobs("jobs/" + job);
    return node;
  }
  static v1::GetPolicyResponse Policy() {
    v1::GetPolicyResponse response;
    v1::ProjectPolicy& project = *response.mutable_policy()->add_projects();
    project.set_name("nlp");
    project.set_description("language models");
    (*project.mutable_quota())["h100"] = 64;
    (*project.mutable_quota())["*"] = 128;
    v1::QueuePolicy& queue = *response.mutable_policy()->add_queues();
    queue.set_name("urgent");
    queue.set_priority(5);
    queue.set_max_devices(16);
    for (auto* usage : {response.add_projects(), response.add_queues()}) {
      (*usage->mutable_devices())["h100"] = 8;
      (*usage->mutable_devices())["cpu"] = 2;
      usage->set_active_jobs(3);
      usage->set_queued_jobs(1);
    }
    response.mutable_projects(0)->set_name("nlp");
    response.mutable_queues(0)->set_name("urgent");
    return response;
  }
};

TEST_F(OperatorCommandsTest, ApplySendsTheFileAndTellsWhatChanged) {
  v1::ApplyPolicyRequest asked;
  server_.apply = [&](const v1::ApplyPolicyRequest& request, v1::ApplyPolicyResponse* response) {
    asked = request;
    *response->mutable_policy() = request.policy();
    v1::PolicyChange& created = *response->add_changes();
    created.set_kind("project");
    created.set_name("nlp");
    created.set_action(v1::PolicyChange::CREATED);
    v1::PolicyChange& changed = *response->add_changes();
    changed.set_kind("scheduling");
    changed.set_action(v1::PolicyChange::CHANGED);
    changed.set_detail("preemption_gap 0 -> 2");
    response->add_changes()->set_kind("queue");
    response->mutable_changes(2)->set_name("default");
    response->mutable_changes(2)->set_action(v1::PolicyChange::UNCHANGED);
    return FakeAnswer();
  };
  const std::string file =
      Write("projects: [{name: nlp, quota: {h100: 64}}]\nscheduling: {preemption_gap: 2}\n");
  const Outcome applied = Run({"apply", file});
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(applied.out,
            "project/nlp created\nscheduling changed: preemption_gap 0 -> 2\n"
            "queue/default unchanged\n");
  EXPECT_EQ(asked.policy().projects(0).quota().at("h100"), 64);
  EXPECT_FALSE(asked.validate_only());
  EXPECT_EQ(Run({"apply", file, "-o", "name"}).out, "project/nlp\nscheduling\n");
  const Outcome checked = Run({"apply", file, "--validate-only", "-o", "json"});
  EXPECT_TRUE(asked.validate_only());
  EXPECT_THAT(checked.err, HasSubstr("nothing has"));
  const auto json = nlohmann::json::parse(checked.out);
  EXPECT_EQ(json["changes"][0]["change"], "created");
  EXPECT_EQ(json["policy"]["projects"][0]["quota"]["h100"], 64);
}

TEST_F(OperatorCommandsTest, ABadPolicyFileIsRefusedBeforeTheServerIsAsked) {
  const std::string file = Write("projects:\n  - {nam: nlp}\n");
  const Outcome got = Run({"apply", file});
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err,
              HasSubstr(file + ":2:6: projects[0].nam: unknown field — did you mean name?"));
  EXPECT_EQ(server_.calls("ApplyPolicy"), 0);
  EXPECT_EQ(Run({"apply", "/nowhere/policy.yaml"}).code, 2);
}

TEST_F(OperatorCommandsTest, WhatTheServerRefusesStandsAtItsPlaceInTheFile) {
  server_.apply = [](const auto&, auto*) -> FakeAnswer {
    google::rpc::BadRequest request;
    request.add_field_violations()->set_field("projects[0].quota.h100");
    request.mutable_field_violations(0)->set_description("is too much");
    google::rpc::Status status;
    status.add_details()->PackFrom(request);
    return {3, "bad", status.SerializeAsString()};
  };
  const std::string file = Write("projects:\n  - name: nlp\n    quota: {h100: 64}\n");
  const Outcome got = Run({"apply", file});
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr(file + ":3:13: projects[0].quota.h100: is too much"));
}

TEST_F(OperatorCommandsTest, AProjectWithLiveJobsThatWouldGoIsAFailure) {
  server_.apply = [](const auto&, auto*) -> FakeAnswer {
    google::rpc::ErrorInfo info;
    info.set_reason("IN_USE");
    google::rpc::Status status;
    status.add_details()->PackFrom(info);
    return {9, "project nlp has jobs that are not over: a", status.SerializeAsString()};
  };
  const Outcome got = Run({"apply", Write("")});
  EXPECT_EQ(got.code, 1);
  EXPECT_THAT(got.err, HasSubstr("jobs that are not over: a"));
}

TEST_F(OperatorCommandsTest, ProjectsAndQueuesAreListedWithWhatIsUsed) {
  server_.Put(Policy());
  EXPECT_EQ(Run({"get", "projects"}).out,
            "NAME  USED/QUOTA                    ACTIVE  QUEUED  DESCRIPTION\n"
            "nlp   cpu 2, h100 8/64, all 10/128  3       1       language models\n");
  EXPECT_EQ(Run({"get", "queues"}).out,
            "NAME    PRIORITY  USED/MOST  ACTIVE  QUEUED  DESCRIPTION\n"
            "urgent  5         10/16      3       1\n");
  const auto project = nlohmann::json::parse(Run({"get", "project", "nlp", "-o", "json"}).out);
  EXPECT_EQ(project["quota"]["*"], 128);
  EXPECT_EQ(project["used"]["h100"], 8);
  EXPECT_EQ(Run({"get", "queues", "-o", "name"}).out, "urgent\n");
  EXPECT_EQ(Run({"get", "queue", "nobody"}).code, 5);
  EXPECT_EQ(Run({"get", "projcts"}).code, 2);
}

TEST_F(OperatorCommandsTest, ThePolicyIsShownAsAFileThatCanBeApplied) {
  v1::GetPolicyResponse policy = Policy();
  policy.mutable_policy()->mutable_timing()->set_lease_seconds(45);
  server_.Put(policy);
  const std::string text = Run({"get", "policy"}).out;
  EXPECT_THAT(text, HasSubstr("timing:\n  lease_seconds: 45\n"));
  v1::ApplyPolicyRequest asked;
  server_.apply = [&](const v1::ApplyPolicyRequest& request, auto*) {
    asked = request;
    return FakeAnswer();
  };
  EXPECT_EQ(Run({"apply", Write(text)}).code, 0);
  EXPECT_EQ(asked.policy().ShortDebugString(), policy.policy().ShortDebugString());
  const auto json = nlohmann::json::parse(Run({"get", "policy", "-o", "json"}).out);
  EXPECT_EQ(json["timing"]["lease_seconds"], 45);
  // All of it, in each form.
  v1::Policy& whole = *policy.mutable_policy();
  whole.mutable_projects(0)->add_roots("/data/nlp");
  whole.mutable_scheduling()->mutable_buffer()->set_level("cluster");
  whole.mutable_scheduling()->mutable_buffer()->set_fraction(0.5);
  whole.mutable_scheduling()->set_ttl_after_finished_seconds(60);
  server_.Put(policy);
  ASSERT_EQ(Run({"apply", Write(Run({"get", "policy", "-o", "yaml"}).out)}).code, 0);
  EXPECT_EQ(asked.policy().ShortDebugString(), whole.ShortDebugString());
  const auto full = nlohmann::json::parse(Run({"get", "policy", "-o", "json"}).out);
  EXPECT_EQ(full["projects"][0]["roots"][0], "/data/nlp");
  EXPECT_EQ(full["scheduling"]["buffer"]["nodes"], "50%");
  EXPECT_EQ(full["scheduling"]["ttl_after_finished_seconds"], 60);
  EXPECT_EQ(Run({"get", "policy", "nlp"}).code, 2);
}

TEST_F(OperatorCommandsTest, DrainAndResumeAreTold) {
  server_.Put(NodeWith("n0", ""));
  server_.Put(NodeWith("n1", "a"));
  const Outcome drained = Run({"drain", "n0", "nodes/n1", "n0"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_EQ(server_.calls("DrainNodes"), 1);
  EXPECT_THAT(drained.err,
              HasSubstr("node n1 is drained: it takes no new ranks; it has ranks of a"));
  EXPECT_THAT(Run({"get", "nodes"}).out, HasSubstr("READY,DRAINED"));
  const Outcome described = Run({"describe", "node", "n1"});
  EXPECT_THAT(described.out, HasSubstr("READY,DRAINED"));
  EXPECT_THAT(described.out, HasSubstr("none, until strata resume n1"));
  EXPECT_THAT(described.out, HasSubstr("Jobs:          a"));
  EXPECT_EQ(Run({"get", "node", "n1", "-o", "name"}).out, "n1\n");
  const Outcome resumed = Run({"resume", "n1", "-o", "json"});
  EXPECT_THAT(resumed.err, HasSubstr("node n1 is READY: it takes ranks again"));
  EXPECT_FALSE(nlohmann::json::parse(resumed.out)[0]["drained"]);
}

TEST_F(OperatorCommandsTest, NodesAreWatched) {
  server_.Put(NodeWith("n0", "a"));
  server_.Put(NodeWith("n1", ""));
  std::vector<int64_t> asked;
  server_.watch_nodes = [&](const v1::WatchNodesRequest& request, const auto& send) -> FakeAnswer {
    asked.push_back(request.resource_version());
    v1::WatchNodesResponse change;
    send(change);  // a bookmark
    *change.mutable_node() = NodeWith("n1", "");
    send(change);
    change.mutable_node()->set_name("nodes/n0");
    change.set_deleted(true);
    send(change);
    return asked.size() < 2 ? FakeAnswer{11, "no longer kept", ""} : FakeAnswer{5, "enough", ""};
  };
  const Outcome table = Run({"get", "nodes", "--watch"});
  EXPECT_EQ(table.code, 5);
  EXPECT_THAT(table.err, HasSubstr("no longer kept; watching again"));
  EXPECT_THAT(table.out, testing::StartsWith("NAME  STATE"));
  EXPECT_THAT(table.out, HasSubstr("\nn0  is deleted\n"));
  EXPECT_EQ(asked.size(), 2u);
  const Outcome json = Run({"get", "nodes", "-w", "-o", "json"});
  const std::vector<std::string> lines = absl::StrSplit(json.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["jobs"][0], "a");
  EXPECT_TRUE(nlohmann::json::parse(lines[3])["deleted"]);
  EXPECT_EQ(Run({"get", "jobs", "--watch"}).code, 2);
  EXPECT_EQ(Run({"get", "nodes", "-w", "-o", "yaml"}).code, 2);
}

TEST_F(OperatorCommandsTest, AMisspeltNodeChangesNothing) {
  server_.Put(NodeWith("n0", ""));
  const Outcome got = Run({"drain", "n0", "n9"});
  EXPECT_EQ(got.code, 5);
  EXPECT_THAT(got.err, HasSubstr("no node n9"));
  EXPECT_EQ(server_.calls("DrainNodes"), 0);
}

TEST_F(OperatorCommandsTest, AControllerOfTheReleaseBeforeDrainsNodesOneByOne) {
  server_.Put(NodeWith("n0", ""));
  server_.Put(NodeWith("n1", ""));
  server_.before = [](const std::string& method, double) {
    return method == "DrainNodes" ? FakeAnswer{12, "no such method", ""} : FakeAnswer();
  };
  const Outcome drained = Run({"drain", "n0", "n1", "-o", "name"});
  EXPECT_EQ(drained.out, "n0\nn1\n") << drained.err;
  EXPECT_EQ(server_.calls("DrainNode"), 2);
}

TEST_F(OperatorCommandsTest, DrainWaitsUntilNoRanksAreLeft) {
  server_.Put(NodeWith("n1", "a"));
  const Outcome late = Run({"drain", "n1", "--wait", "--timeout", "0.3"});
  EXPECT_EQ(late.code, 6);
  EXPECT_THAT(late.err, HasSubstr("there are still ranks on n1 (a)"));
  int asked = 0;
  server_.before = [&](const std::string& method, double) {
    if (method == "GetNode" && ++asked == 3) server_.Put(NodeWith("n1", ""));
    return FakeAnswer();
  };
  const Outcome moved = Run({"drain", "n1", "--wait", "--timeout", "60"});
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(moved.err, HasSubstr("no ranks are left there"));
}

}  // namespace
}  // namespace strata::client
