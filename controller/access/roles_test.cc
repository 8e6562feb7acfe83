#include "controller/access/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "spec/policy_file.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

v1::Policy PolicyOf(const std::string& yaml) {
  spec::Problems problems("policy.yaml");
  v1::Policy policy = spec::ReadPolicy(yaml, problems).policy;
  EXPECT_TRUE(problems.empty()) << problems.ToString();
  return policy;
}

v1::Policy Team() {
  return PolicyOf(R"(projects: [{name: nlp}, {name: vision}]
roles:
  - {role: viewer, members: ["*"], project: default}
  - {role: submitter, members: [users/sue, groups/interns], project: nlp}
  - {role: project-admin, members: [users/pat], project: nlp}
  - {role: viewer, members: [users/vic]}
  - {role: operator, members: [users/oli]}
  - {role: admin, members: [users/ada]}
  - {role: metrics, members: [users/mona]}
)");
}

Identity User(const std::string& name, const std::vector<std::string>& groups = {}) {
  Identity identity = *ParseIdentity("users/" + name, "tls");
  identity.groups = groups;
  return identity;
}

Rights Of(const Identity& identity) { return Rights(identity, Team(), {"users/root"}); }

Target Job(const std::string& project, const std::string& owner) {
  return {.name = "jobs/x", .project = project, .owner = owner, .is_job = true};
}

bool MayCancel(const std::string& user, const std::string& project, const std::string& owner) {
  return Of(User(user)).Decide("JobService/CancelJob", Job(project, owner)).allowed;
}

TEST(Rights, ARoleHoldsInItsProject) {
  EXPECT_TRUE(MayCancel("pat", "nlp", "users/sue"));
  EXPECT_FALSE(MayCancel("pat", "vision", "users/pat"));
  EXPECT_TRUE(MayCancel("sue", "nlp", "users/sue"));
  EXPECT_FALSE(MayCancel("sue", "nlp", "users/pat"));
  EXPECT_FALSE(MayCancel("sue", "nlp", ""));
  EXPECT_FALSE(MayCancel("sue", "vision", "users/sue"));
  EXPECT_TRUE(MayCancel("oli", "vision", "users/sue"));
  EXPECT_TRUE(Of(User("vic")).SeesAll());
  EXPECT_FALSE(Of(User("pat")).SeesAll());
  EXPECT_TRUE(Of(User("pat")).Sees("nlp"));
  EXPECT_TRUE(Of(User("pat")).Sees("default"));
}

TEST(Rights, GroupsAndEverybodyAreMembers) {
  EXPECT_TRUE(Of(User("new", {"users", "interns"})).Sees("nlp"));
  EXPECT_FALSE(Of(User("interns")).Sees("nlp"));
  EXPECT_TRUE(Of(User("new")).Sees("default"));
  EXPECT_FALSE(Of(*ParseIdentity("nodes/n0", "tls")).Sees("default"));
}

TEST(Rights, TheMetricsPageIsForItsRoleOperatorsAndAdmins) {
  const auto may = [](const std::string& user) {
    return Of(User(user)).Decide("GET /metrics", {}).allowed;
  };
  EXPECT_TRUE(may("mona") && may("oli") && may("ada") && may("root"));
  EXPECT_FALSE(may("vic") || may("pat") || may("sue") || may("stranger"));
  EXPECT_FALSE(Of(*ParseIdentity("nodes/n0", "tls")).Decide("GET /metrics", {}).allowed);
  // And its role is for nothing else: what mona may do besides everybody may.
  for (const std::string& method : MethodsOfTable()) {
    if (method == "GET /metrics") continue;
    const Target job = Job("nlp", "users/mona");
    EXPECT_EQ(Of(User("mona")).Decide(method, job).allowed,
              Of(User("stranger")).Decide(method, job).allowed)
        << method;
  }
  EXPECT_THAT(Of(User("vic")).Decide("GET /metrics", {}).reason,
              HasSubstr("it takes operator or admin or metrics, and users/vic has viewer"));
}

TEST(Rights, NodesSpeakForThemselvesOnly) {
  const Rights node = Of(*ParseIdentity("nodes/n0", "tls"));
  EXPECT_TRUE(node.Decide("AgentService/Session", {.name = "nodes/n0"}).allowed);
  EXPECT_FALSE(node.Decide("AgentService/Session", {.name = "nodes/n1"}).allowed);
  EXPECT_FALSE(Of(User("ada")).Decide("AgentService/Session", {.name = "nodes/n0"}).allowed);
  EXPECT_FALSE(Of(User("n0")).Decide("AgentService/Session", {.name = "nodes/n0"}).allowed);
}

TEST(Rights, TheControllersOwnUserAndStandingAdminsNeedNoPolicy) {
  Identity own = *ParseIdentity("users/strata", "unix");
  EXPECT_FALSE(Rights(own, {}, {}).Decide("ClusterService/ApplyPolicy", {}).allowed);
  own.is_owner = true;
  for (const std::string& method : MethodsOfTable()) {
    EXPECT_TRUE(Rights(own, {}, {}).Decide(method, {.name = "nodes/n0"}).allowed) << method;
  }
  EXPECT_TRUE(Of(User("root")).Decide("ClusterService/ApplyPolicy", {}).allowed);
  EXPECT_FALSE(Of(User("root")).Decide("AgentService/Session", {.name = "nodes/n0"}).allowed);
}

TEST(Rights, WhereNothingTellsCallersApartEverythingIsAllowed) {
  for (const std::string& method : MethodsOfTable()) {
    EXPECT_TRUE(Of(Identity()).Decide(method, Job("nlp", "")).allowed) << method;
  }
  Identity unknown;  // somebody without a certificate, where others have one
  unknown.by = "tls";
  const Decision refused = Of(unknown).Decide("JobService/ListJobs", {.is_job = true});
  EXPECT_FALSE(refused.allowed);
  EXPECT_TRUE(refused.unknown);
  EXPECT_TRUE(Of(unknown).Decide("AccessService/GetIdentity", {}).allowed);
}

TEST(Rights, RefusalsSayWhatIsLackingAndHowToGetIt) {
  const Decision seen = Of(User("sue")).Decide("JobService/CancelJob", Job("nlp", "users/pat"));
  EXPECT_EQ(seen.reason,
            "users/sue may not do JobService/CancelJob on job x: it takes submitter (for jobs of "
            "one's own) or project-admin in project nlp, or operator or admin, and users/sue has "
            "viewer in project default, submitter in project nlp — strata whoami tells the roles "
            "one has; an admin gives others with strata apply (roles:)");
  EXPECT_FALSE(seen.unknown);
  EXPECT_THAT(Of(User("sue")).Decide("ClusterService/DrainNode", {.name = "nodes/n0"}).reason,
              HasSubstr("on node n0: it takes operator or admin, and"));
}

TEST(Rights, JobsThatCannotBeSeenAreRefusedAsThoseThatAreNot) {
  const Target none = {.name = "jobs/x", .is_job = true};
  const Rights sue = Of(User("sue"));
  for (const char* method : {"JobService/GetJob", "JobService/CancelJob"}) {
    const Decision refused = sue.Decide(method, none);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.reason, sue.Decide(method, Job("vision", "users/sue")).reason);
  }
  // Who sees all jobs is told by the method.
  EXPECT_TRUE(Of(User("vic")).Decide("JobService/GetJob", none).allowed);
}

TEST(IsRevoked, OfANameAndOfACertificateButNotOfTheOwner) {
  const v1::Policy policy = PolicyOf("revoked: [users/eve, nodes/n3, \"serial:4f3A09\"]");
  EXPECT_TRUE(IsRevoked(User("eve"), policy));
  EXPECT_TRUE(IsRevoked(*ParseIdentity("nodes/n3", "tls"), policy));
  EXPECT_FALSE(IsRevoked(*ParseIdentity("nodes/n4", "tls"), policy));
  EXPECT_FALSE(IsRevoked(Identity(), policy));
  Identity ann = User("ann");
  EXPECT_FALSE(IsRevoked(ann, policy));
  ann.certificate = ShownCertificate{.serial = "4F3A09"};
  EXPECT_TRUE(IsRevoked(ann, policy));
  ann.certificate->serial = "4F3A0900";
  EXPECT_FALSE(IsRevoked(ann, policy));
  Identity owner = User("eve");
  owner.is_owner = true;
  EXPECT_FALSE(IsRevoked(owner, policy));
}

TEST(Rights, UnknownMethodsAreRefusedToAll) {
  EXPECT_FALSE(Of(User("ada")).Decide("JobService/Surprise", {}).allowed);
}

TEST(Roles, ThePolicyFileKnowsThemAll) {
  std::set<std::string> names;
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kProjectAdmin, Role::kOperator,
                          Role::kAdmin, Role::kMetrics}) {
    names.insert(NameOf(role));
    EXPECT_EQ(FindRole(NameOf(role)), role);
    const std::string project = IsOfProject(role) ? ", project: default" : "";
    PolicyOf(absl::StrCat("roles: [{role: ", NameOf(role), ", members: [users/a]", project, "}]"));
  }
  EXPECT_EQ(names.size(), 6u);
  EXPECT_EQ(FindRole("node"), std::nullopt);  // nobody is given it
}

}  // namespace
}  // namespace strata::controller
