// What callers see, own and may change; who they are.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/clock.h"
#include "controller/service/testing/access_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

TEST_F(Access, WhatProvesNothingIsUnauthenticated) {
  EXPECT_EQ(Get("broken", "of-sue").error_code(), grpc::UNAUTHENTICATED);
  As context("broken");
  const auto stream = running_.jobs->WatchJobs(&context, {});
  v1::WatchJobsResponse change;
  EXPECT_FALSE(stream->Read(&change));
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAUTHENTICATED);
  As agent("broken");
  EXPECT_EQ(running_.agents->Session(&agent)->Finish().error_code(), grpc::UNAUTHENTICATED);
}

TEST_F(Access, TheOwnerIsWhoCreatedTheJobWhateverTheRequestSays) {
  EXPECT_EQ(Create("users/sue", "another", "nlp").owner(), "users/sue");
  EXPECT_EQ(Create("owner", "by-owner", "nlp").owner(), "users/strata");
}

TEST_F(Access, RequestIdsAreEachUsersOwn) {
  const auto create = [&](const std::string& caller, const std::string& name) {
    As context(caller);
    v1::CreateJobRequest request = GoodRequest(name);
    request.mutable_job()->mutable_spec()->set_project("nlp");
    request.set_request_id("the-same");
    v1::Job job;
    return running_.jobs->CreateJob(&context, request, &job);
  };
  EXPECT_TRUE(create("users/sue", "first").ok());
  EXPECT_TRUE(create("users/pat", "second").ok());
  EXPECT_TRUE(create("users/sue", "first").ok());  // the same job again
  EXPECT_EQ(ReasonOf(create("users/sue", "third")), "REQUEST_ID_REUSED");
}

TEST_F(Access, ListsHoldWhatTheCallerSees) {
  EXPECT_THAT(List("users/vic"), ElementsAre("jobs/of-pat", "jobs/of-sue"));
  EXPECT_THAT(List("users/oli"), ElementsAre("jobs/foreign", "jobs/of-pat", "jobs/of-sue"));
  EXPECT_THAT(List("owner"), ElementsAre("jobs/foreign", "jobs/of-pat", "jobs/of-sue"));
}

TEST_F(Access, WatchesTellWhatTheCallerSees) {
  As context("users/vic");
  const auto stream = running_.jobs->WatchJobs(&context, {});
  Create("users/ada", "foreign-too", "vision");
  Create("users/sue", "of-sue-too", "nlp");
  std::vector<std::string> names;
  v1::WatchJobsResponse change;
  while ((names.empty() || names.back() != "jobs/of-sue-too") && stream->Read(&change)) {
    if (change.has_job()) names.push_back(change.job().name());
  }
  EXPECT_THAT(names, Not(testing::Contains(HasSubstr("foreign"))));
  EXPECT_THAT(names, testing::Contains("jobs/of-sue"));
}

TEST_F(Access, WhatOneMayNotSeeIsRefusedAsWhatDoesNotExist) {
  const grpc::Status foreign = Get("users/sue", "foreign");
  const grpc::Status none = Get("users/sue", "missing");
  EXPECT_EQ(foreign.error_code(), none.error_code());
  EXPECT_EQ(foreign.error_message(),
            "users/sue may not do JobService/GetJob on job foreign" +
                none.error_message().substr(
                    std::string("users/sue may not do JobService/GetJob on job missing").size()));
  EXPECT_EQ(Get("users/oli", "missing").error_code(), grpc::NOT_FOUND);
}

TEST_F(Access, WhyAJobWaitsNamesNoJobThatTheCallerMayNotSee) {
  for (const char* job : {"of-sue", "of-pat"}) EXPECT_TRUE(Cancel("users/ada", job).ok());
  As agent("nodes/n0");
  const auto session = running_.agents->Session(&agent);
  v1::AgentMessage hello;
  hello.set_incarnation(1);
  hello.mutable_register_()->set_node("n0");
  hello.mutable_register_()->set_device("cpu");
  hello.mutable_register_()->set_devices(1);
  ASSERT_TRUE(session->Write(hello));
  v1::ControllerMessage message;
  while (session->Read(&message) && !message.has_prepare()) {  // of the foreign job
  }
  Create("users/ada", "foreign-next", "vision");  // waits before it
  Create("users/sue", "waits", "nlp");
  const auto explain = [&](const std::string& caller) {
    As context(caller);
    v1::ExplainJobRequest request;
    request.set_name("jobs/waits");
    v1::ExplainJobResponse response;
    EXPECT_TRUE(running_.jobs->ExplainJob(&context, request, &response).ok());
    return response.DebugString();
  };
  EXPECT_THAT(explain("users/oli"), HasSubstr("foreign"));
  EXPECT_THAT(explain("users/vic"), Not(HasSubstr("foreign")));
  EXPECT_THAT(explain("users/vic"), HasSubstr("n0 is used by a job of another project"));
  const auto reason = [&](const std::string& caller) {
    As context(caller);
    v1::GetJobRequest request;
    request.set_name("jobs/waits");
    v1::Job job;
    EXPECT_TRUE(running_.jobs->GetJob(&context, request, &job).ok());
    return job.reason();
  };
  const double until = common::WallSeconds() + 20;  // it is decided soon
  while (!absl::StrContains(reason("users/oli"), "foreign") && common::WallSeconds() < until) {
  }
  EXPECT_THAT(reason("users/oli"), HasSubstr("foreign"));
  EXPECT_THAT(reason("users/vic"), HasSubstr("a job of another project"));
  EXPECT_THAT(reason("users/vic"), Not(HasSubstr("foreign")));
  agent.TryCancel();
}

TEST_F(Access, PermissionComesBeforeWhatIsWrongWithTheRequest) {
  As viewer("users/vic");
  v1::CreateJobRequest nonsense;
  v1::Job job;
  EXPECT_EQ(running_.jobs->CreateJob(&viewer, nonsense, &job).error_code(),
            grpc::PERMISSION_DENIED);
  As admin("users/ada");
  EXPECT_EQ(running_.jobs->CreateJob(&admin, nonsense, &job).error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(Access, RolesHoldFromTheMomentThePolicyIsApplied) {
  EXPECT_EQ(Get("users/new", "of-sue").error_code(), grpc::PERMISSION_DENIED);
  v1::Policy policy;
  for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
  *policy.add_roles() = Binding("viewer", "users/new");
  *policy.add_roles() = Binding("admin", "users/ada");
  ASSERT_TRUE(Apply("users/ada", policy).ok());
  EXPECT_TRUE(Get("users/new", "of-sue").ok());
  EXPECT_EQ(Get("users/vic", "of-sue").error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(Access, StreamsEndWithThePolicyThatAllowedThem) {
  As viewer("users/vic"), own("owner");
  const auto restricted = running_.jobs->WatchJobs(&viewer, {});
  const auto unrestricted = running_.jobs->WatchJobs(&own, {});
  v1::WatchJobsResponse change;
  ASSERT_TRUE(restricted->Read(&change));
  ASSERT_TRUE(unrestricted->Read(&change));
  v1::Policy policy;
  for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
  ASSERT_TRUE(Apply("owner", policy).ok());
  while (restricted->Read(&change)) {
  }
  const grpc::Status ended = restricted->Finish();
  EXPECT_EQ(ended.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonOf(ended), "POLICY_CHANGED");
  const std::string created = Create("owner", "later", "nlp").name();
  while (unrestricted->Read(&change) && change.job().name() != created) {
  }
  EXPECT_EQ(change.job().name(), created);
  own.TryCancel();
}

TEST_F(Access, NobodyLocksHimselfOut) {
  v1::Policy policy;
  for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
  const grpc::Status refused = Apply("users/ada", policy);
  EXPECT_EQ(refused.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(refused), "LOCKOUT");
  EXPECT_THAT(refused.error_message(), HasSubstr("members: [users/ada]"));
  EXPECT_TRUE(Apply("users/root", policy).ok());  // a standing admin stays one
  EXPECT_EQ(Apply("users/ada", policy).error_code(), grpc::PERMISSION_DENIED);
  EXPECT_TRUE(Apply("owner", policy).ok());
}

TEST_F(Access, NodesAreShownWithoutTheJobsOfOthers) {
  const auto node_jobs = [&](const std::string& caller) {
    As context(caller);
    v1::GetNodeRequest request;
    request.set_name("nodes/n0");
    v1::Node node;
    EXPECT_TRUE(running_.cluster->GetNode(&context, request, &node).ok());
    return std::vector<std::string>(node.jobs().begin(), node.jobs().end());
  };
  As agent_context("nodes/n0");
  const auto agent = running_.agents->Session(&agent_context);
  v1::AgentMessage hello;
  hello.set_incarnation(1);
  hello.mutable_register_()->set_node("n0");
  hello.mutable_register_()->set_device("cpu");
  hello.mutable_register_()->set_devices(3);
  ASSERT_TRUE(agent->Write(hello));
  v1::ControllerMessage message;
  int prepares = 0;  // of the three jobs that wait
  while (prepares < 3 && agent->Read(&message)) prepares += message.has_prepare();
  EXPECT_THAT(node_jobs("users/ada"),
              UnorderedElementsAre("jobs/foreign", "jobs/of-pat", "jobs/of-sue"));
  EXPECT_THAT(node_jobs("users/vic"), UnorderedElementsAre("jobs/of-pat", "jobs/of-sue"));
  agent_context.TryCancel();
}
TEST_F(Access, IdentityTellsWhoOneIsAndWhatOneMay) {
  const auto access = v1::AccessService::NewStub(running_.channel());
  const auto ask = [&](const std::string& caller) {
    As context(caller);
    v1::Identity identity;
    EXPECT_TRUE(access->GetIdentity(&context, {}, &identity).ok());
    return identity.ShortDebugString();
  };
  EXPECT_EQ(ask("users/sue"),
            "identity: \"users/sue\" by: \"tls\" roles { role: \"submitter\" project: \"nlp\" }");
  EXPECT_EQ(ask("nodes/n0"),
            "identity: \"nodes/n0\" by: \"tls\" roles { role: \"node\" project: \"*\" }");
  EXPECT_EQ(ask("users/stranger"), "identity: \"users/stranger\" by: \"tls\"");
  EXPECT_EQ(ask(""), "by: \"tls\"");
  RunningController open;
  Deadline context;
  v1::Identity identity;
  EXPECT_TRUE(
      v1::AccessService::NewStub(open.channel())->GetIdentity(&context, {}, &identity).ok());
  EXPECT_EQ(identity.ShortDebugString(), "by: \"none\" roles { role: \"admin\" project: \"*\" }");
}

TEST_F(Access, ANodeHasFewSessionsAtATime) {
  std::vector<std::unique_ptr<As>> contexts;
  std::vector<std::thread> readers;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 9; ++i) contexts.push_back(std::make_unique<As>("nodes/n0"));
  for (const auto& context : contexts) {
    readers.emplace_back([&] {
      const auto session = running_.agents->Session(context.get());
      v1::ControllerMessage message;
      while (session->Read(&message)) {
      }
      refused += ReasonOf(session->Finish()) == "TOO_MANY_SESSIONS";
    });
  }
  while (refused == 0) std::this_thread::yield();
  for (const auto& context : contexts) context->TryCancel();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(refused, 1);
}

TEST(Session, EndsWithoutRegistration) {
  Controller::Options options = WithIdentities();
  options.register_seconds = 0.05;
  RunningController running("", options);
  As context("nodes/n0");
  v1::ControllerMessage message;
  const auto session = running.agents->Session(&context);
  EXPECT_FALSE(session->Read(&message));
  EXPECT_EQ(ReasonOf(session->Finish()), "NOT_REGISTERED");
}

TEST(Connection, EndsWhenItIsIdle) {
  Controller::Options options = WithIdentities();
  options.idle_seconds = 0.2;
  RunningController running("", options);
  ASSERT_TRUE(running.channel()->WaitForConnected(std::chrono::system_clock::now() +
                                                  std::chrono::seconds(60)));
  EXPECT_TRUE(running.channel()->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::seconds(60)));
}

}  // namespace
}  // namespace strata::controller
