// whoami, get policy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/commands/fake_cluster.h"
#include "spec/policy_file.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

class AccessCommandsTest : public FakeClusterTest {
 protected:
  AccessCommandsTest() {
    server_.identity.set_identity("users/ann");
    server_.identity.set_by("tls");
    server_.identity.add_groups("nlp");
    for (const auto& [role, project] : {std::pair("submitter", "nlp"), std::pair("viewer", "*")}) {
      v1::Identity::Role& held = *server_.identity.add_roles();
      held.set_role(role);
      held.set_project(project);
    }
  }
};

TEST_F(AccessCommandsTest, WhoAmITellsIdentityGroupsAndRoles) {
  EXPECT_EQ(Run({"whoami"}).out,
            "users/ann (by tls)\ngroups: nlp\nroles: submitter in project nlp, viewer\n");
  EXPECT_EQ(Run({"whoami", "-o", "name"}).out, "users/ann\n");
  const auto json = nlohmann::json::parse(Run({"whoami", "-o", "json"}).out);
  EXPECT_EQ(json["by"], "tls");
  EXPECT_EQ(json["groups"][0], "nlp");
  EXPECT_EQ(json["roles"][0]["project"], "nlp");
  server_.identity.clear_roles();
  EXPECT_THAT(Run({"whoami"}).out, HasSubstr("roles: none\n"));
}

TEST_F(AccessCommandsTest, WhereNothingTellsCallersApartThatIsSaid) {
  server_.identity.Clear();
  server_.identity.set_by("none");
  EXPECT_THAT(Run({"whoami"}).out, HasSubstr("everybody who reaches it may do everything"));
}

TEST_F(AccessCommandsTest, ThePolicyInUseIsAFileThatApplyTakes) {
  v1::GetPolicyResponse policy;
  policy.mutable_policy()->add_projects()->set_name("nlp");
  v1::RoleBinding& role = *policy.mutable_policy()->add_roles();
  role.set_role("submitter");
  role.add_members("users/ann");
  role.add_members("*");
  role.set_project("nlp");
  server_.Put(policy);
  const std::string text = Run({"get", "policy"}).out;
  spec::Problems problems("policy.yaml");
  EXPECT_EQ(spec::ReadPolicy(text, problems).policy.ShortDebugString(),
            policy.policy().ShortDebugString())
      << text << problems.ToString();
  const auto json = nlohmann::json::parse(Run({"get", "policy", "-o", "json"}).out);
  EXPECT_EQ(json["roles"][0]["members"][1], "*");
  EXPECT_EQ(json["roles"][0]["project"], "nlp");
  EXPECT_EQ(Run({"get", "policy", "x"}).code, 2);
}

TEST_F(AccessCommandsTest, TheAuditTrailIsListedAndFiltered) {
  std::string asked;
  server_.audit = [&](const v1::ListAuditRecordsRequest& request,
                      v1::ListAuditRecordsResponse* response) {
    asked = request.filter();
    const bool second = request.page_token() == "more";
    v1::AuditRecord& record = *response->add_records();
    record.set_sequence(second ? 1 : 2);
    record.mutable_time()->set_seconds(1700000000);
    record.set_identity(second ? "" : "users/ann");
    record.set_method("JobService/CancelJob");
    record.set_resource("jobs/a");
    record.set_outcome(second ? "OK" : "PERMISSION_DENIED");
    record.set_reason(second ? "" : "it takes more");
    if (!second) response->set_next_page_token("more");
    return FakeAnswer();
  };
  const std::string table = Run({"get", "audit", "identity=users/ann"}).out;
  EXPECT_EQ(asked, "identity=users/ann");
  EXPECT_THAT(table, HasSubstr("IDENTITY   METHOD                RESOURCE  OUTCOME"));
  EXPECT_THAT(table, HasSubstr("users/ann  JobService/CancelJob  jobs/a    PERMISSION_DENIED  it"));
  EXPECT_THAT(table, HasSubstr("-          JobService/CancelJob  jobs/a    OK\n"));
  const auto json = nlohmann::json::parse(Run({"get", "audit", "-o", "json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(asked, "");
  EXPECT_EQ(json[0]["outcome"], "PERMISSION_DENIED");
  EXPECT_THAT(json[0]["time"].get<std::string>(), HasSubstr("2023-11-14T22:13:20"));
  EXPECT_EQ(Run({"get", "audit", "-o", "name"}).out, "2\n1\n");
}

TEST_F(AccessCommandsTest, ARefusalIsTold) {
  server_.before = [](const std::string&, double) {
    return FakeAnswer{7, "users/ann may not do it", ""};
  };
  const Outcome refused = Run({"get", "policy"});
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, HasSubstr("users/ann may not do it"));
}

}  // namespace
}  // namespace strata::client
