// Who may do what, over the wire: every method of every service, as every kind of caller, about
// jobs of the caller's own, of its project and of another. Methods are found through the server's
// reflection; what is expected of each stands here once more, by itself. Each refusal is in the
// audit trail.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/access_test_support.h"
#include "controller/service/testing/reflected_methods.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// What each role may be told or do: to its own jobs, to those of its project, to all, or nothing.
enum Expected { kNothing, kOwnJobs, kProjectJobs, kAllJobs };
struct Expectation {
  Expected viewer, submitter, project_admin, op, admin;
  Expected metrics = kNothing;  // its page is no method
  bool node = false;
  bool anybody = false;
};
constexpr Expectation kLook = {kProjectJobs, kProjectJobs, kProjectJobs, kAllJobs, kAllJobs};
constexpr Expectation kAct = {kNothing, kOwnJobs, kProjectJobs, kAllJobs, kAllJobs};
constexpr Expectation kChange = {kNothing, kOwnJobs, kProjectJobs, kNothing, kAllJobs};
constexpr Expectation kEveryRole = {kAllJobs, kAllJobs, kAllJobs, kAllJobs, kAllJobs};
constexpr Expectation kOperators = {kNothing, kNothing, kNothing, kAllJobs, kAllJobs};
constexpr Expectation kAdmins = {kNothing, kNothing, kNothing, kNothing, kAllJobs};
constexpr Expectation kEverybody = {kAllJobs, kAllJobs, kAllJobs, kAllJobs,
                                    kAllJobs, kAllJobs, true,     true};

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
      {"ListPlanFamilies", kEveryRole},
      {"GetNode", kEveryRole},
      {"ListNodes", kEveryRole},
      {"WatchNodes", kEveryRole},
      {"DrainNode", kOperators},
      {"DrainNodes", kOperators},
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
      {"Session", {kNothing, kNothing, kNothing, kNothing, kNothing, kNothing, true}},
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
      {"users/mona", &Expectation::metrics},
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

// What the audit trail says that a call was about.
std::string ResourceOf(const MethodDescriptor& method, const Subject& subject,
                       const Person& person) {
  static const auto& of_nothing = *new std::set<std::string>{
      "ListJobs",    "CancelJobs",     "GetCluster",      "GetTopology",      "ListNodes",
      "DrainNodes",  "GetPolicy",      "BackupCluster",   "ListPlanFamilies", "CreateJoinToken",
      "GetIdentity", "ListJoinTokens", "ListAuditRecords"};
  // Who is no node is refused a session before it has named one.
  const bool is_node = person.caller.substr(0, 6) == "nodes/";
  if (method.name() == "Session" && !is_node) return "";
  if (method.name() == "CreateJob") return "jobs/new";
  if (method.name() == "ApplyPolicy") return "policy";
  if (of_nothing.contains(method.name())) return "";
  return absl::StrCat(method.service()->name() == "JobService" ? "jobs/" + subject.job
                                                               : "nodes/n0");
}

// As many refusals are recorded as there are.
class AuditedAccess : public Access {
 protected:
  AuditedAccess() : Access(Recording()) {}
  static Controller::Options Recording() {
    Controller::Options options = WithIdentities();
    options.refusals = {.of_one = {.per_second = 1, .burst = 1e6},
                        .of_unknown = {.per_second = 1, .burst = 1e6}};
    return options;
  }
  v1::AuditRecord Newest() {
    As context("owner");
    v1::ListAuditRecordsRequest request;
    request.set_page_size(1);
    v1::ListAuditRecordsResponse page;
    EXPECT_TRUE(audit_->ListAuditRecords(&context, request, &page).ok());
    return page.records_size() == 0 ? v1::AuditRecord() : page.records(0);
  }

  const std::unique_ptr<v1::AccessService::Stub> audit_ =
      v1::AccessService::NewStub(running_.channel());
};

TEST_F(AuditedAccess, EveryMethodIsAllowedToWhomItShouldAndRefusedToAllOthersOnRecord) {
  int64_t seen = Newest().sequence();
  int refusals = 0;
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
        ++refusals;
        const v1::AuditRecord record = Newest();
        EXPECT_GT(record.sequence(), seen) << "it is not in the audit trail";
        seen = record.sequence();
        EXPECT_EQ(record.identity(), person.caller);
        EXPECT_EQ(record.method(), absl::StrCat(method->service()->name(), "/", method->name()));
        EXPECT_EQ(record.resource(), ResourceOf(*method, subject, person));
        EXPECT_EQ(record.outcome(), unknown ? "UNAUTHENTICATED" : "PERMISSION_DENIED");
        EXPECT_THAT(record.reason(), HasSubstr(method->name()));
        EXPECT_THAT(record.peer(), StartsWith("ipv"));
      }
    }
  }
  EXPECT_GT(refusals, 800);
}
}  // namespace
}  // namespace strata::controller
