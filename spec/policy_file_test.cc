#include "spec/policy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "spec/policy_defaults.h"

namespace strata::spec {
namespace {

constexpr char kGood[] = R"(projects:
  - {name: nlp, description: "language models: all", quota: {h100: 64, "*": 16k}}
  - {name: vision, max_queued_jobs: 5, max_priority: -1, max_spec_bytes: 64k, max_streams: 3,
     max_calls_per_second: 0.5}
queues:
  - name: urgent
    priority: 10
    max_devices: 16
  - {name: batch, preemptible: true}
scheduling:
  {buffer: {level: zone, nodes: 7%}, min_run_seconds: 0.5, preemption_gap: 2, defragment: true}
roles:
  - {role: submitter, members: [users/ann, groups/nlp-team, "*"], project: nlp}
  - {role: viewer, members: [users/ann]}
  - role: admin
    members: [users/root]
revoked: [users/eve, nodes/n3, "serial:4F3a09"]
timing: {heartbeat_seconds: 0.5, lease_seconds: 12, storage_bytes_per_second: 5e6}
)";

v1::Policy Read(const std::string& text) {
  Problems problems("policy.yaml");
  const PolicyFile file = ReadPolicy(text, problems);
  EXPECT_TRUE(problems.empty()) << problems.ToString();
  return file.policy;
}

std::string ProblemsOf(const std::string& text) {
  Problems problems("policy.yaml");
  ReadPolicy(text, problems);
  return problems.ToString();
}

TEST(ReadPolicy, ReadsEveryKey) {
  const v1::Policy policy = Read(kGood);
  ASSERT_EQ(policy.projects_size(), 2);
  EXPECT_EQ(policy.projects(0).name(), "nlp");
  EXPECT_EQ(policy.projects(0).description(), "language models: all");
  EXPECT_EQ(policy.projects(0).quota().at("h100"), 64);
  EXPECT_EQ(policy.projects(0).quota().at("*"), 16'000);
  EXPECT_EQ(policy.projects(1).name(), "vision");
  EXPECT_EQ(policy.projects(1).max_queued_jobs(), 5);
  EXPECT_EQ(policy.projects(1).max_priority(), -1);
  EXPECT_EQ(policy.projects(1).max_spec_bytes(), 64'000);
  EXPECT_EQ(policy.projects(1).max_streams(), 3);
  EXPECT_EQ(policy.projects(1).max_calls_per_second(), 0.5);
  ASSERT_EQ(policy.queues_size(), 2);
  EXPECT_EQ(policy.queues(0).priority(), 10);
  EXPECT_EQ(policy.queues(0).max_devices(), 16);
  EXPECT_EQ(policy.scheduling().min_run_seconds(), 0.5);
  EXPECT_EQ(policy.scheduling().preemption_gap(), 2);
  EXPECT_TRUE(policy.scheduling().defragment());
  EXPECT_FALSE(policy.scheduling().has_shrink_after_seconds());
  EXPECT_EQ(policy.timing().heartbeat_seconds(), 0.5);
  EXPECT_EQ(policy.timing().lease_seconds(), 12);
  EXPECT_EQ(policy.timing().storage_bytes_per_second(), 5e6);
  EXPECT_FALSE(policy.timing().has_orphan_seconds());
  EXPECT_FALSE(policy.queues(0).has_preemptible());
  EXPECT_TRUE(policy.queues(1).preemptible());
  EXPECT_EQ(policy.scheduling().buffer().level(), "zone");
  EXPECT_EQ(policy.scheduling().buffer().fraction(), 0.07);
  EXPECT_FALSE(policy.scheduling().buffer().has_nodes());
}

TEST(ReadPolicy, TheBufferIsACountOrAShare) {
  const auto buffer = [](const std::string& text) {
    return ProblemsOf(absl::StrCat("scheduling: {buffer: ", text, "}\n"));
  };
  EXPECT_EQ(Read("scheduling: {buffer: {level: cluster, nodes: 3}}").scheduling().buffer().nodes(),
            3);
  EXPECT_THAT(buffer("{level: zone, nodes: 101%}"), testing::HasSubstr("must be from 0% to 100%"));
  EXPECT_THAT(
      buffer("{level: zone, nodes: x%}"),
      testing::HasSubstr(":1:43: scheduling.buffer.nodes: must be a whole number or a share "
                         "such as 2%: x% is"));
  EXPECT_THAT(buffer("{level: zone, nodes: -1}"), testing::HasSubstr("at least 0"));
  EXPECT_THAT(buffer("{level: zone}"),
              testing::HasSubstr("scheduling.buffer.nodes: required key is missing"));
  EXPECT_THAT(buffer("{nodes: 1}"),
              testing::HasSubstr("scheduling.buffer.level: required key is missing"));
}

TEST(ReadPolicy, AnEmptyFileDeclaresNothing) {
  EXPECT_EQ(Read("").ByteSizeLong(), 0u);
  EXPECT_EQ(Read("projects: []\nqueues: []\n").ByteSizeLong(), 0u);
}

TEST(ReadPolicy, EveryProblemStandsAtItsPlace) {
  EXPECT_EQ(ProblemsOf(R"(projects:
  - {name: nlp, quta: {h100: 64}}
  - {name: NLP}
  - {description: nameless}
  - text
  - {name: nlp}
queues:
  - {name: a, priority: high, max_devices: -1}
  - {name: b, quota: {"bad kind": 1}}
scheduling: {min_run_seconds: -1, defragmnt: true, unknown_run_seconds: 0}
)"),
            "policy.yaml:2:17: projects[0].quta: unknown field — did you mean quota?\n"
            "policy.yaml:3:12: projects[1].name: NLP is no name — use 1 to 63 of a-z, 0-9 and '-', "
            "not '-' at its ends\n"
            "policy.yaml:4:5: projects[2].name: required key is missing — give it a name, such as "
            "{name: nlp}\n"
            "policy.yaml:5:5: projects[3]: must be a section such as {name: NAME}, not text\n"
            "policy.yaml:6:12: projects[4].name: nlp stands here twice (it is projects[0], too) — "
            "remove one of them\n"
            "policy.yaml:8:25: queues[0].priority: must be a whole number: high is not a whole "
            "number such as 128 or 16k\n"
            "policy.yaml:8:44: queues[0].max_devices: must be at least 0, not -1\n"
            "policy.yaml:9:15: queues[1].quota: unknown field — did you mean "
            "projects[0].quota?\n"
            "policy.yaml:10:31: scheduling.min_run_seconds: must be at least 0, not -1\n"
            "policy.yaml:10:35: scheduling.defragmnt: unknown field — did you mean defragment?\n"
            "policy.yaml:10:73: scheduling.unknown_run_seconds: must be greater than 0, not 0\n");
}

TEST(ReadPolicy, QuotasAreCountsOfKinds) {
  EXPECT_EQ(ProblemsOf(R"(projects:
  - name: nlp
    quota: {h100: many, a100: -1, "bad kind": 1, b200: "8", c: [1]}
  - {name: vision, quota: 5}
)"),
            "policy.yaml:3:19: projects[0].quota.h100: must be a whole number: many is not a whole "
            "number such as 128 or 16k\n"
            "policy.yaml:3:31: projects[0].quota.a100: must be at least 0, not -1\n"
            "policy.yaml:3:35: projects[0].quota.bad kind: bad kind is no kind of device — name "
            "one, such as h100, or \"*\" for all kinds together\n"
            "policy.yaml:3:56: projects[0].quota.b200: must be a whole number, not the text \"8\"\n"
            "policy.yaml:3:64: projects[0].quota.c: must be a whole number, not a list\n"
            "policy.yaml:4:27: projects[1].quota: must be a section such as {h100: 64}, not 5\n");
}

TEST(ReadPolicy, RolesAreKnownAndHaveMembersAndProjects) {
  const v1::Policy policy = Read(kGood);
  ASSERT_EQ(policy.roles_size(), 3);
  EXPECT_EQ(policy.roles(0).role(), "submitter");
  EXPECT_THAT(policy.roles(0).members(), testing::ElementsAre("users/ann", "groups/nlp-team", "*"));
  EXPECT_EQ(policy.roles(0).project(), "nlp");
  const v1::Policy complete = CompletePolicy(policy);
  EXPECT_EQ(complete.roles(1).project(), "*");
  EXPECT_FALSE(complete.roles(2).has_project());
  EXPECT_EQ(
      ProblemsOf(R"(roles:
  - {role: root, members: [users/ann]}
  - {members: [users/ann]}
  - {role: viewer, members: []}
  - {role: viewer, members: [ann, "users/", groups/a b]}
  - {role: viewer, members: [users/ann], project: nlp}
  - {role: admin, members: [users/ann], project: default}
  - {role: viewer, members: [users/ann], project: default}
  - {role: viewer, members: [users/ann], project: "*"}
)"),
      "policy.yaml:2:12: roles[0].role: root is no role — the roles are viewer, submitter, "
      "project-admin, operator, admin and metrics\n"
      "policy.yaml:3:5: roles[1].role: required key is missing — the roles are viewer, "
      "submitter, project-admin, operator, admin and metrics\n"
      "policy.yaml:4:20: roles[2].members: nobody has this role — name such as [users/ann, "
      "groups/nlp], or \"*\" for all\n"
      "policy.yaml:5:30: roles[3].members[0]: ann is no member — write users/NAME, "
      "groups/NAME, or \"*\" for everybody who is known\n"
      "policy.yaml:5:35: roles[3].members[1]: users/ is no member — write users/NAME, "
      "groups/NAME, or \"*\" for everybody who is known\n"
      "policy.yaml:5:45: roles[3].members[2]: groups/a b is no member — write users/NAME, "
      "groups/NAME, or \"*\" for everybody who is known\n"
      "policy.yaml:6:51: roles[4].project: there is no project nlp in this file — declare it "
      "under projects:, or leave this key out for all projects\n"
      "policy.yaml:7:50: roles[5].project: admin is a role in the whole cluster — remove this "
      "key, or give project-admin\n");
}

TEST(ReadPolicy, WhatIsRevokedIsAnIdentityOrACertificate) {
  EXPECT_THAT(Read(kGood).revoked(),
              testing::ElementsAre("users/eve", "nodes/n3", "serial:4F3a09"));
  const std::string what =
      " is nobody and no certificate — write users/NAME, nodes/NAME, or serial:HEX as openssl x509 "
      "-serial tells it\n";
  EXPECT_EQ(ProblemsOf("revoked: [groups/nlp, eve, \"serial:\", \"serial:0x1\"]\n"),
            "policy.yaml:1:11: revoked[0]: groups/nlp" + what +
                "policy.yaml:1:23: revoked[1]: eve" + what +
                "policy.yaml:1:28: revoked[2]: serial:" + what +
                "policy.yaml:1:39: revoked[3]: serial:0x1" + what);
}

TEST(ReadPolicy, LimitsHaveTheirRangesAndTheirOrder) {
  EXPECT_EQ(
      ProblemsOf("timing: {lease_seconds: 4, orphan_seconds: 4, heartbeat_seconds: 0}\n"),
      "policy.yaml:1:25: timing.lease_seconds: 4 s is not more than node_lost_seconds (4 s) "
      "— raise it, or lower node_lost_seconds\n"
      "policy.yaml:1:44: timing.orphan_seconds: 4 s is not more than lease_seconds (4 s) — "
      "raise it, or lower lease_seconds\n"
      "policy.yaml:1:66: timing.heartbeat_seconds: must be at least 0.2 and at most 86400, not "
      "0\n");
  EXPECT_EQ(ProblemsOf("timing:\n  heartbeat_seconds: 3\n  hang_seconds: 2\n"
                       "  storage_seconds: 1\n"),
            "policy.yaml:1:1: timing.node_lost_seconds: 4 s is less than twice heartbeat_seconds "
            "(3 s) — raise it, or lower heartbeat_seconds\n"
            "policy.yaml:3:17: timing.hang_seconds: 2 s is less than suspect_seconds (3 s) — raise "
            "it, or lower suspect_seconds\n"
            "policy.yaml:4:20: timing.storage_seconds: 1 s is less than hang_seconds (2 s) — raise "
            "it, or lower hang_seconds\n");
  EXPECT_EQ(ProblemsOf("timing: {orphan_seconds: 31, lease_seconds: 30}\n"), "");
  EXPECT_EQ(ProblemsOf("timing: {forget_node_seconds: 0}\nscheduling: {max_nodes: 0}\n"),
            "policy.yaml:2:25: scheduling.max_nodes: must be at least 1, not 0\n");
  EXPECT_EQ(ProblemsOf("timing: {forget_node_seconds: 30}\n"),
            "policy.yaml:1:31: timing.forget_node_seconds: 30 s is not more than lease_seconds "
            "(30 s) — raise it, or lower lease_seconds\n");
}

TEST(ReadPolicy, RootsAreAbsolutePaths) {
  EXPECT_EQ(ProblemsOf("projects: [{name: nlp, roots: [/data/nlp, /]}]\n"), "");
  EXPECT_EQ(ProblemsOf("projects: [{name: nlp, roots: [data, /data/../etc]}]\n"),
            "policy.yaml:1:32: projects[0].roots[0]: data is no absolute path — name a folder as "
            "the nodes see it, such as /data/nlp, without \"..\"\n"
            "policy.yaml:1:38: projects[0].roots[1]: /data/../etc is no absolute path — name a "
            "folder as the nodes see it, such as /data/nlp, without \"..\"\n");
}

TEST(ReadPolicy, OtherThingsThanPoliciesAreRefused) {
  EXPECT_EQ(ProblemsOf("- a\n"),
            "policy.yaml:1:1: must be a section of keys, not a list — such a file begins like "
            "`projects: [{name: nlp, quota: {h100: 64}}]`\n");
  EXPECT_THAT(ProblemsOf("model: {layers: 2}\n"), testing::HasSubstr("model: unknown field"));
}

TEST(ReadPolicy, TheNumberOfEntriesIsBounded) {
  std::string text = "queues:\n";
  for (int i = 0; i <= 1000; ++i) absl::StrAppend(&text, "  - name: q", i, "\n");
  EXPECT_EQ(ProblemsOf(text),
            "policy.yaml:1:1: queues: has 1001 entries — at most 1000 are allowed\n");
}

TEST(WritePolicy, ReadsBackToTheSame) {
  const v1::Policy policy = Read(kGood);
  EXPECT_EQ(Read(WritePolicy(policy)).ShortDebugString(), policy.ShortDebugString());
  const v1::Policy complete = CompletePolicy(policy);
  EXPECT_EQ(Read(WritePolicy(complete)).ShortDebugString(), complete.ShortDebugString());
  EXPECT_EQ(WritePolicy(complete).substr(0, 70), std::string(R"(projects:
  - name: default
  - name: nlp
    description: "language models: all"
)")
                                                     .substr(0, 70));
}

TEST(CompletePolicy, KeepsWhatIsSaidAndAddsWhatIsNot) {
  const v1::Policy complete = CompletePolicy(Read(kGood));
  ASSERT_EQ(complete.projects_size(), 3);
  EXPECT_EQ(complete.projects(0).name(), "default");
  ASSERT_EQ(complete.queues_size(), 3);
  EXPECT_EQ(complete.queues(0).name(), "batch");
  EXPECT_EQ(complete.queues(1).name(), "default");
  EXPECT_EQ(complete.queues(0).priority(), 0);
  EXPECT_EQ(complete.scheduling().min_run_seconds(), 0.5);
  EXPECT_EQ(complete.scheduling().shrink_after_seconds(), 60);
  EXPECT_EQ(complete.scheduling().unknown_run_seconds(), 86400);
  EXPECT_EQ(complete.timing().heartbeat_seconds(), 0.5);
  EXPECT_EQ(complete.timing().node_lost_seconds(), 4);
  EXPECT_TRUE(complete.timing().has_orphan_seconds());
  EXPECT_EQ(complete.timing().forget_node_seconds(), 7 * 86400);
  EXPECT_EQ(complete.scheduling().max_nodes(), 20'000);
  EXPECT_EQ(CompletePolicy(complete).ShortDebugString(), complete.ShortDebugString());
}

}  // namespace
}  // namespace strata::spec
