// A controller that knows its callers, with jobs and roles in two projects.
#ifndef STRATA_CONTROLLER_SERVICE_TESTING_ACCESS_TEST_SUPPORT_H_
#define STRATA_CONTROLLER_SERVICE_TESTING_ACCESS_TEST_SUPPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {

inline constexpr char kCallerKey[] = "test-caller";

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

inline Controller::Options WithIdentities() {
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

inline v1::RoleBinding Binding(const std::string& role, const std::string& member,
                               const std::string& project = "") {
  v1::RoleBinding binding;
  binding.set_role(role);
  binding.add_members(member);
  if (!project.empty()) binding.set_project(project);
  return binding;
}

class Access : public testing::Test {
 protected:
  explicit Access(const Controller::Options& options = WithIdentities()) : running_("", options) {
    v1::Policy policy;
    for (const char* name : {"nlp", "vision"}) policy.add_projects()->set_name(name);
    *policy.add_roles() = Binding("viewer", "users/vic", "nlp");
    *policy.add_roles() = Binding("submitter", "users/sue", "nlp");
    *policy.add_roles() = Binding("project-admin", "users/pat", "nlp");
    *policy.add_roles() = Binding("operator", "users/oli");
    *policy.add_roles() = Binding("admin", "users/ada");
    *policy.add_roles() = Binding("metrics", "users/mona");
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
  // Newest first.
  std::vector<v1::AuditRecord> Records(const std::string& filter = "") {
    const auto access = v1::AccessService::NewStub(running_.channel());
    std::vector<v1::AuditRecord> records;
    v1::ListAuditRecordsRequest request;
    request.set_filter(filter);
    request.set_page_size(7);
    for (;;) {
      As context("owner");
      v1::ListAuditRecordsResponse page;
      const grpc::Status status = access->ListAuditRecords(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      records.insert(records.end(), page.records().begin(), page.records().end());
      request.set_page_token(page.next_page_token());
      if (request.page_token().empty()) return records;
    }
  }
  grpc::Status Cancel(const std::string& caller, const std::string& name) {
    As context(caller);
    v1::CancelJobRequest request;
    request.set_name("jobs/" + name);
    v1::Job job;
    return running_.jobs->CancelJob(&context, request, &job);
  }
  std::vector<std::string> List(const std::string& caller) {
    As context(caller);
    v1::ListJobsResponse response;
    EXPECT_TRUE(running_.jobs->ListJobs(&context, {}, &response).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : response.jobs()) names.push_back(job.name());
    return names;
  }

  RunningController running_;
};
}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TESTING_ACCESS_TEST_SUPPORT_H_
