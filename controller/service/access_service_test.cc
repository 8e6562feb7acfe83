// Who may do what, over the wire: every method of every service, as every kind of caller, about
// jobs of the caller's own, of its project and of another. Methods are found through the server's
// reflection; what is expected of each stands here once more, by itself.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/service/reflected_methods.h"
#include "controller/service/rpc_test_support.h"
#include "controller/service/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr char kCallerKey[] = "test-caller";

// Believes what the caller says of itself: users/ann, nodes/n0, controller, owner; nothing: nobody.
class Credulous final : public Authenticator {
 public:
  void Authenticate(const grpc::ServerContextBase& context, Done done) override {
    const auto found = context.client_metadata().find(kCallerKey);
    Identity identity;
    identity.by = "tls";
    if (found == context.client_metadata().end()) return done(identity);
    const std::string text(found->second.data(), found->second.size());
    if (text == "broken") return done(absl::UnauthenticatedError("the certificate is over"));
    if (text == "owner") {
      identity = *ParseIdentity("users/strata", "unix");
      identity.is_owner = true;
      return done(identity);
    }
    done(ParseIdentity(text, "tls"));
  }
};

Controller::Options WithIdentities() {
  Controller::Options options;
  options.authenticator = std::make_shared<Credulous>();
  options.standing_admins = {"users/root"};
  return options;
}

class As : public Deadline {
 public:
  explicit As(const std::string& caller) {
    if (!caller.empty()) AddMetadata(kCallerKey, caller);
  }
};

v1::RoleBinding Binding(const std::string& role, const std::string& member,
                        const std::string& project = "") {
  v1::RoleBinding binding;
  binding.set_role(role);
  binding.add_members(member);
  if (!project.empty()) binding.set_project(project);
  return binding;
}

class Access : public testing::Test {
 protected:
  Access() {
    v1::Policy policy;
    for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
    *policy.add_roles() = Binding("viewer", "users/vic", "nlp");
    *policy.add_roles() = Binding("submitter", "users/sue", "nlp");
    *policy.add_roles() = Binding("project-admin", "users/pat", "nlp");
    *policy.add_roles() = Binding("operator", "users/oli");
    *policy.add_roles() = Binding("admin", "users/ada");
    EXPECT_TRUE(Apply("owner", policy).ok());
    Create("users/sue", "of-sue", "nlp");
    Create("users/pat", "of-pat", "nlp");
    Create("users/ada", "foreign", "vision");
  }

  grpc::Status Apply(const std::string& caller, const v1::Policy& policy) {
    As context(caller);
    v1::ApplyPolicyRequest request;
    *request.mutable_policy() = policy;
    v1::ApplyPolicyResponse response;
    return running_.cluster->ApplyPolicy(&context, request, &response);
  }
  v1::Job Create(const std::string& caller, const std::string& name, const std::string& project) {
    As context(caller);
    v1::CreateJobRequest request = GoodRequest(name);
    request.mutable_job()->mutable_spec()->set_project(project);
    request.mutable_job()->set_owner("users/forged");
    v1::Job job;
    const grpc::Status status = running_.jobs->CreateJob(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  grpc::Status Get(const std::string& caller, const std::string& name) {
    As context(caller);
    v1::GetJobRequest request;
    request.set_name("jobs/" + name);
    v1::Job job;
    return running_.jobs->GetJob(&context, request, &job);
  }
  std::vector<std::string> List(const std::string& caller) {
    As context(caller);
    v1::ListJobsResponse response;
    EXPECT_TRUE(running_.jobs->ListJobs(&context, {}, &response).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : response.jobs()) names.push_back(job.name());
    return names;
  }

  RunningController running_{"", WithIdentities()};
};

// What each role may be told or do: to its own jobs, to those of its project, to all, or nothing.
enum Expected { kNothing, kOwnJobs, kProjectJobs, kAllJobs };
struct Expectation {
  Expected viewer, submitter, project_admin, op, admin;
  bool node = false;
  bool anybody = false;
};
constexpr Expectation kLook = {kProjectJobs, kProjectJobs, kProjectJobs, kAllJobs, kAllJobs};
constexpr Expectation kAct = {kNothing, kOwnJobs, kProjectJobs, kAllJobs, kAllJobs};
constexpr Expectation kChange = {kNothing, kOwnJobs, kProjectJobs, kNothing, kAllJobs};
constexpr Expectation kEveryRole = {kAllJobs, kAllJobs, kAllJobs, kAllJobs, kAllJobs};
constexpr Expectation kOperators = {kNothing, kNothing, kNothing, kAllJobs, kAllJobs};
constexpr Expectation kAdmins = {kNothing, kNothing, kNothing, kNothing, kAllJobs};
constexpr Expectation kEverybody = {kAllJobs, kAllJobs, kAllJobs, kAllJobs, kAllJobs, true, true};

const std::map<std::string, Expectation>& Expectations() {
  static const auto& all = *new std::map<std::string, Expectation>{
      {"CreateJob", {kNothing, kProjectJobs, kProjectJobs, kNothing, kAllJobs}},
      {"GetJob", kLook},
      {"ListJobs", kEveryRole},
      {"WatchJobs", kLook},
      {"ExplainJob", kLook},
      {"ListJobEvents", kLook},
      {"StreamLogs", kLook},
      {"StreamProgress", kLook},
      {"CancelJob", kAct},
      {"CancelJobs", {kNothing, kAllJobs, kAllJobs, kAllJobs, kAllJobs}},
      {"SuspendJob", kAct},
      {"ResumeJob", kAct},
      {"UpdateJob", kChange},
      {"DeleteJob", kChange},
      {"GetCluster", kEveryRole},
      {"GetTopology", kEveryRole},
      {"GetNode", kEveryRole},
      {"ListNodes", kEveryRole},
      {"WatchNodes", kEveryRole},
      {"DrainNode", kOperators},
      {"ResumeNode", kOperators},
      {"DeleteNode", kOperators},
      {"GetPolicy", kOperators},
      {"ApplyPolicy", kAdmins},
      {"BackupCluster", kAdmins},
      {"CreateJoinToken", kAdmins},
      {"ListJoinTokens", kAdmins},
      {"DeleteJoinToken", kAdmins},
      {"ListAuditRecords", kAdmins},
      {"GetIdentity", kEverybody},
      {"EnrollNode", kEverybody},
      {"Session", {kNothing, kNothing, kNothing, kNothing, kNothing, true}},
  };
  return all;
}

struct Subject {
  std::string job;      // NAME
  std::string project;  // of a new job
  Expected least;       // what a role must be allowed at least
};
const std::vector<Subject>& Subjects() {
  static const auto& all = *new std::vector<Subject>{{"of-sue", "nlp", kOwnJobs},
                                                     {"of-pat", "nlp", kProjectJobs},
                                                     {"foreign", "vision", kAllJobs},
                                                     {"none", "none", kAllJobs}};
  return all;
}

void SetText(Message& message, const char* key, const std::string& text) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(key);
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return;
  message.GetReflection()->SetString(&message, field, text);
}

// Asks about the subject, without changing anything where the method can.
std::string RequestAbout(ReflectedMethods& found, const MethodDescriptor& method,
                         const Subject& subject) {
  if (method.name() == "Session") {
    v1::AgentMessage hello;
    hello.set_incarnation(1);
    hello.mutable_register_()->set_node("n0");
    hello.mutable_register_()->set_device("cpu");
    hello.mutable_register_()->set_devices(1);
    return hello.SerializeAsString();
  }
  if (method.name() == "CreateJob") {
    v1::CreateJobRequest create = GoodRequest("new");
    create.mutable_job()->mutable_spec()->set_project(subject.project);
    create.set_validate_only(true);
    return create.SerializeAsString();
  }
  const auto request = found.Request(method);
  const auto& reflection = *request->GetReflection();
  const bool of_jobs = method.service()->name() == "JobService";
  const std::string named = of_jobs ? "jobs/" + subject.job : "nodes/n0";
  for (const char* key : {"name", "parent"}) SetText(*request, key, named);
  SetText(*request, "etag", "stale");
  const auto& type = *request->GetDescriptor();
  if (const auto* job = type.FindFieldByName("job"); job != nullptr) {
    SetText(*reflection.MutableMessage(request.get(), job), "name", named);
    SetText(*reflection.MutableMessage(request.get(), job), "etag", "stale");
  }
  if (const auto* only = type.FindFieldByName("validate_only"); only != nullptr) {
    reflection.SetBool(request.get(), only, true);
  }
  return request->SerializeAsString();
}

struct Person {
  std::string caller;
  Expected Expectation::*column;  // null: has no role of a user
};
const std::vector<Person>& People() {
  static const auto& all = *new std::vector<Person>{
      {"users/vic", &Expectation::viewer},
      {"users/sue", &Expectation::submitter},
      {"users/pat", &Expectation::project_admin},
      {"users/oli", &Expectation::op},
      {"users/ada", &Expectation::admin},
      {"users/root", &Expectation::admin},
      {"users/stranger", nullptr},
      {"nodes/n0", nullptr},
      {"nodes/n1", nullptr},
      {"controller", nullptr},
      {"", nullptr},
  };
  return all;
}

bool IsExpected(const Expectation& expected, const Person& person, const Subject& subject) {
  if (expected.anybody) return true;
  if (person.caller == "nodes/n0") return expected.node;
  return person.column != nullptr && expected.*person.column != kNothing &&
         expected.*person.column >= subject.least;
}

TEST_F(Access, EveryMethodIsAllowedToWhomItShouldAndRefusedToAllOthers) {
  auto found = ReflectedMethods::Read(running_.channel());
  ASSERT_TRUE(found.ok()) << found.status();
  for (const MethodDescriptor* method : (*found)->methods()) {
    const auto expected = Expectations().find(method->name());
    ASSERT_NE(expected, Expectations().end())
        << method->full_name() << ": say here and in controller/access/roles.cc who may do it";
    for (const Person& person : People()) {
      for (const Subject& subject : Subjects()) {
        As context(person.caller);
        const CallOutcome outcome =
            CallMethod(running_.channel(), ReflectedMethods::PathOf(*method), &context,
                       {RequestAbout(**found, *method, subject)}, /*most=*/1);
        SCOPED_TRACE(absl::StrCat(method->full_name(), " by ", person.caller, " about ",
                                  subject.job, ": ", outcome.status.error_message()));
        const std::string reason = ReasonOf(outcome.status);
        if (IsExpected(expected->second, person, subject)) {
          EXPECT_NE(reason, "ROLE_REQUIRED");
          EXPECT_NE(reason, "IDENTITY_REQUIRED");
          continue;
        }
        const bool unknown = person.caller.empty();
        EXPECT_EQ(outcome.status.error_code(),
                  unknown ? grpc::UNAUTHENTICATED : grpc::PERMISSION_DENIED);
        EXPECT_EQ(reason, unknown ? "IDENTITY_REQUIRED" : "ROLE_REQUIRED");
        EXPECT_THAT(outcome.responses, IsEmpty());
      }
    }
  }
}

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

}  // namespace
}  // namespace strata::controller
