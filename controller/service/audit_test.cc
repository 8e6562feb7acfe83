// What is written down of calls, and how much one caller may take.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/access_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// "users/sue JobService/CancelJob jobs/of-pat PERMISSION_DENIED"
std::string TextOf(const v1::AuditRecord& record) {
  return absl::StrCat(record.identity(), " ", record.method(), " ", record.resource(), " ",
                      record.outcome());
}

std::vector<std::string> TextsOf(const std::vector<v1::AuditRecord>& records) {
  std::vector<std::string> texts;
  for (const v1::AuditRecord& record : records) texts.push_back(TextOf(record));
  return texts;
}

TEST_F(Access, WhatWasChangedAndRefusedIsAudited) {
  EXPECT_EQ(Cancel("users/sue", "of-pat").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_TRUE(Cancel("users/pat", "of-pat").ok());
  EXPECT_EQ(Get("users/vic", "foreign").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_TRUE(Get("users/vic", "of-sue").ok());  // looking changes nothing
  EXPECT_EQ(Get("broken", "of-sue").error_code(), grpc::UNAUTHENTICATED);
  As viewer("users/vic");
  v1::WatchJobsRequest foreign;
  foreign.set_name("jobs/foreign");
  v1::WatchJobsResponse change;
  EXPECT_FALSE(running_.jobs->WatchJobs(&viewer, foreign)->Read(&change));
  As impostor("nodes/n1");
  const auto session = running_.agents->Session(&impostor);
  v1::AgentMessage hello;
  hello.set_incarnation(1);
  hello.mutable_register_()->set_node("n0");
  ASSERT_TRUE(session->Write(hello));
  EXPECT_EQ(session->Finish().error_code(), grpc::PERMISSION_DENIED);

  const std::vector<v1::AuditRecord> records = Records();
  EXPECT_THAT(TextsOf(records),
              UnorderedElementsAre("users/strata ClusterService/ApplyPolicy policy OK",
                                   "users/sue JobService/CreateJob jobs/of-sue OK",
                                   "users/pat JobService/CreateJob jobs/of-pat OK",
                                   "users/ada JobService/CreateJob jobs/foreign OK",
                                   "users/sue JobService/CancelJob jobs/of-pat PERMISSION_DENIED",
                                   "users/pat JobService/CancelJob jobs/of-pat OK",
                                   "users/vic JobService/GetJob jobs/foreign PERMISSION_DENIED",
                                   " JobService/GetJob jobs/of-sue UNAUTHENTICATED",
                                   "users/vic JobService/WatchJobs jobs/foreign PERMISSION_DENIED",
                                   "nodes/n1 AgentService/Session nodes/n0 PERMISSION_DENIED"));
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].sequence(), static_cast<int64_t>(records.size() - i));
    EXPECT_THAT(records[i].peer(), testing::StartsWith("ipv"));
    EXPECT_GT(records[i].time().seconds(), 0);
    EXPECT_EQ(records[i].reason().empty(), records[i].outcome() == "OK");
  }
  EXPECT_THAT(TextsOf(Records("identity=users/sue outcome!=OK")),
              ElementsAre("users/sue JobService/CancelJob jobs/of-pat PERMISSION_DENIED"));
  EXPECT_EQ(Records("method=JobService/* AND outcome=OK").size(), 4u);
  EXPECT_EQ(Records("resource=jobs/of-pat").size(), 3u);
}

TEST_F(Access, NobodyTakesAnotherNodesSession) {
  const auto hello = [](uint64_t incarnation) {
    v1::AgentMessage message;
    message.set_incarnation(incarnation);
    message.mutable_register_()->set_node("n0");
    message.mutable_register_()->set_device("cpu");
    message.mutable_register_()->set_devices(1);
    return message;
  };
  As own("nodes/n0");
  const auto agent = running_.agents->Session(&own);
  v1::ControllerMessage message;
  ASSERT_TRUE(agent->Write(hello(1)));
  while (agent->Read(&message) && !message.has_prepare()) {  // it is given a job
  }
  ASSERT_TRUE(message.has_prepare());
  for (const char* forger : {"nodes/n1", "users/ada", ""}) {
    As context(forger);
    const auto forged = running_.agents->Session(&context);
    forged->Write(hello(2));  // it may have ended by then
    EXPECT_FALSE(forged->Read(&message));
    EXPECT_THAT(forged->Finish().error_code(),
                testing::AnyOf(grpc::PERMISSION_DENIED, grpc::UNAUTHENTICATED));
  }
  As context("users/ada");
  v1::GetNodeRequest request;
  request.set_name("nodes/n0");
  v1::Node node;
  ASSERT_TRUE(running_.cluster->GetNode(&context, request, &node).ok());
  EXPECT_EQ(node.incarnation(), 1u);  // still that of its own agent
  EXPECT_EQ(node.jobs_size(), 1);
  own.TryCancel();
}

TEST_F(Access, AnAgentThatTakesAnothersPlaceIsAudited) {
  const auto hello = [](uint64_t incarnation) {
    v1::AgentMessage message;
    message.set_incarnation(incarnation);
    message.mutable_register_()->set_node("n0");
    message.mutable_register_()->set_device("cpu");
    message.mutable_register_()->set_devices(1);
    return message;
  };
  As first("nodes/n0"), again("nodes/n0"), second("nodes/n0");
  v1::ControllerMessage message;
  const auto own = running_.agents->Session(&first);
  ASSERT_TRUE(own->Write(hello(1)));
  ASSERT_TRUE(own->Read(&message));
  const auto reconnected = running_.agents->Session(&again);
  ASSERT_TRUE(reconnected->Write(hello(1)));
  ASSERT_TRUE(reconnected->Read(&message));
  EXPECT_THAT(Records("method=AgentService/Session"), IsEmpty());
  const auto other = running_.agents->Session(&second);
  ASSERT_TRUE(other->Write(hello(2)));
  ASSERT_TRUE(other->Read(&message));
  const std::vector<v1::AuditRecord> records = Records("method=AgentService/Session");
  EXPECT_THAT(TextsOf(records), ElementsAre("nodes/n0 AgentService/Session nodes/n0 ABORTED"));
  EXPECT_THAT(records.at(0).reason(), HasSubstr("agent 2 has taken the place of agent 1"));
  for (As* context : {&first, &again, &second}) context->TryCancel();
}

TEST_F(Access, AuditFiltersThatAreNoneAreTold) {
  const auto access = v1::AccessService::NewStub(running_.channel());
  for (const char* bad : {"outcome", "nobody=x", "=", "!=", "time=5", "identity<a"}) {
    As context("users/ada");
    v1::ListAuditRecordsRequest request;
    request.set_filter(bad);
    v1::ListAuditRecordsResponse response;
    const grpc::Status status = access->ListAuditRecords(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << bad;
    EXPECT_THAT(FieldsOf(status), ElementsAre("filter"));
  }
}

TEST_F(Access, ChecksWithoutAChangeAreNotAudited) {
  const size_t before = Records().size();
  As context("users/sue");
  v1::CreateJobRequest request = GoodRequest("only-checked");
  request.mutable_job()->mutable_spec()->set_project("nlp");
  request.set_validate_only(true);
  v1::Job job;
  EXPECT_TRUE(running_.jobs->CreateJob(&context, request, &job).ok());
  EXPECT_EQ(Records().size(), before);
}

TEST_F(Access, WhoIsRefusedAllTheTimeFillsNoTrailAndHidesNobody) {
  const size_t before = Records().size();
  for (int i = 0; i < 200; ++i) Get("users/stranger", "of-sue");
  Get("users/other", "of-sue");
  EXPECT_EQ(Records("identity=users/other").size(), 1u);
  EXPECT_LT(Records().size(), before + 200);
  EXPECT_GE(Records("identity=users/stranger").size(), 20u);
}

TEST_F(Access, RefusalsAreNotWrittenWhileNothingCanBe) {
  std::atomic<bool> full{true};
  running_.store().set_before_commit(
      [&] { return full ? absl::ResourceExhaustedError("full") : absl::OkStatus(); });
  EXPECT_EQ(Cancel("users/pat", "of-pat").error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Get("users/stranger", "of-sue").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_TRUE(Get("users/vic", "of-sue").ok());
  full = false;
  while (!running_.controller().reactor().ready()) {
  }
  EXPECT_THAT(TextsOf(Records("identity=users/stranger")), IsEmpty());
  EXPECT_THAT(TextsOf(Records("method=JobService/CancelJob")), IsEmpty());
}

// While the reactor can take nothing from its queue.
class Stuck : public Access {
 protected:
  Stuck() {
    running_.store().set_before_commit([this] {
      stuck_.Open();
      go_on_.Wait();
      return absl::OkStatus();
    });
    canceller_ = std::thread([this] { EXPECT_TRUE(Cancel("users/pat", "of-pat").ok()); });
    stuck_.Wait();
  }
  ~Stuck() override {
    go_on_.Open();
    canceller_.join();
  }

  Gate stuck_, go_on_;
  std::thread canceller_;
};

TEST_F(Stuck, WhoHasNoRoleIsRefusedWithoutAPlaceInTheQueue) {
  const grpc::Status refused = Get("users/stranger", "of-sue");
  EXPECT_EQ(refused.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(refused), "ROLE_REQUIRED");
  EXPECT_EQ(Get("", "of-sue").error_code(), grpc::UNAUTHENTICATED);
  As context("users/stranger");
  v1::WatchJobsResponse change;
  const auto stream = running_.jobs->WatchJobs(&context, {});
  EXPECT_FALSE(stream->Read(&change));
  EXPECT_EQ(stream->Finish().error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(Stuck, CallersWithoutAnIdentityTakeFewPlaces) {
  constexpr int kCalls = 200;
  struct Asked {
    As context{""};
    v1::Identity identity;
  };
  const auto access = v1::AccessService::NewStub(running_.channel());
  std::vector<Asked> asked(kCalls);
  std::atomic<int> ended = 0, refused = 0;
  for (Asked& each : asked) {
    static const v1::GetIdentityRequest request;
    access->async()->GetIdentity(&each.context, &request, &each.identity,
                                 [&](const grpc::Status& status) {
                                   refused += ReasonOf(status) == "TOO_MANY_CALLS";
                                   ++ended;
                                 });
  }
  while (refused < kCalls / 2) std::this_thread::yield();  // while the others wait
  go_on_.Open();
  while (ended < kCalls) std::this_thread::yield();
  EXPECT_TRUE(Get("users/vic", "of-sue").ok());
}

class Limited : public Access {
 protected:
  void Limit(const std::function<void(v1::ProjectPolicy&)>& set) {
    v1::Policy policy;
    for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
    set(*policy.mutable_projects(0));
    *policy.add_roles() = Binding("viewer", "users/vic", "nlp");
    *policy.add_roles() = Binding("operator", "users/oli");
    ASSERT_TRUE(Apply("owner", policy).ok());
  }
};

TEST_F(Limited, NobodyCallsMoreOftenThanItsProjectsAllow) {
  Limit([](v1::ProjectPolicy& nlp) { nlp.set_max_calls_per_second(0.001); });
  EXPECT_TRUE(Get("users/vic", "of-sue").ok());
  const grpc::Status refused = Get("users/vic", "of-sue");
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_CALLS");
  As context("users/vic");
  v1::WatchJobsResponse change;
  const auto stream = running_.jobs->WatchJobs(&context, {});
  EXPECT_FALSE(stream->Read(&change));
  EXPECT_EQ(stream->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Get("users/oli", "of-sue").ok());
}

TEST_F(Limited, StreamsOfOneUserAreCountedUntilTheyEnd) {
  Limit([](v1::ProjectPolicy& nlp) { nlp.set_max_streams(1); });
  v1::WatchJobsResponse change;
  {
    As context("users/vic");
    const auto first = running_.jobs->WatchJobs(&context, {});
    ASSERT_TRUE(first->Read(&change));
    As again("users/vic");
    const auto second = running_.jobs->WatchJobs(&again, {});
    EXPECT_FALSE(second->Read(&change));
    const grpc::Status refused = second->Finish();
    EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(refused), "TOO_MANY_STREAMS");
    As other("users/oli");
    EXPECT_TRUE(running_.jobs->WatchJobs(&other, {})->Read(&change));
    context.TryCancel();
    other.TryCancel();
    static_cast<void>(first->Finish());
  }
  for (bool open = false; !open;) {  // the server hears of the end a little later
    As context("users/vic");
    const auto stream = running_.jobs->WatchJobs(&context, {});
    open = stream->Read(&change);
    context.TryCancel();
    static_cast<void>(stream->Finish());
  }
}
}  // namespace
}  // namespace strata::controller
