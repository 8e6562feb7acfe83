// Policies, drained nodes, and the map as the controller shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Policy NlpPolicy() {
  v1::Policy policy;
  v1::ProjectPolicy& project = *policy.add_projects();
  project.set_name("nlp");
  (*project.mutable_quota())["cpu"] = 1;
  policy.add_queues()->set_name("urgent");
  policy.mutable_queues(0)->set_priority(5);
  policy.mutable_scheduling()->set_min_run_seconds(1);
  return policy;
}

// "project nlp CREATED", … without what is unchanged.
std::vector<std::string> Changes(const v1::ApplyPolicyResponse& response) {
  std::vector<std::string> texts;
  for (const v1::PolicyChange& change : response.changes()) {
    if (change.action() == v1::PolicyChange::UNCHANGED) continue;
    texts.push_back(absl::StrCat(change.kind(), " ", change.name(), " ",
                                 v1::PolicyChange::Action_Name(change.action()), " ",
                                 change.detail()));
  }
  return texts;
}

v1::CreateJobRequest NlpJob(const std::string& name) {
  v1::CreateJobRequest request = Harness::Request(name, 1);
  request.mutable_job()->mutable_spec()->set_project("nlp");
  return request;
}

class Policies : public TwoNodes {};

TEST_F(Policies, DefaultsExistWithoutAnApply) {
  const v1::Policy& policy = h.core->policy();
  ASSERT_EQ(policy.projects_size(), 1);
  EXPECT_EQ(policy.projects(0).name(), "default");
  ASSERT_EQ(policy.queues_size(), 1);
  EXPECT_EQ(policy.queues(0).name(), "default");
  EXPECT_EQ(policy.scheduling().min_run_seconds(), 30);
}

TEST_F(Policies, ApplyTellsWhatChangesAndTwiceChangesNothing) {
  const auto first = h.ApplyPolicy(NlpPolicy());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Changes(*first), ElementsAre("project nlp CREATED ", "queue urgent CREATED ",
                                           "scheduling  CHANGED min_run_seconds 30 -> 1"));
  const auto records = h.records;
  const auto second = h.ApplyPolicy(NlpPolicy());
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(Changes(*second), ElementsAre());
  // two projects, two queues, scheduling, timing, roles, revoked
  EXPECT_EQ(second->changes_size(), 8);
  EXPECT_EQ(h.records.size(), records.size());
  v1::Policy less = NlpPolicy();
  less.clear_queues();
  (*less.mutable_projects(0)->mutable_quota())["cpu"] = 2;
  (*less.mutable_projects(0)->mutable_quota())["*"] = 8;
  const auto third = h.ApplyPolicy(less);
  ASSERT_TRUE(third.ok());
  EXPECT_THAT(Changes(*third),
              ElementsAre("project nlp CHANGED quota.* none -> 8, quota.cpu 1 -> 2",
                          "queue urgent REMOVED "));
}

TEST_F(Policies, ValidateOnlyChangesNothing) {
  const auto checked = h.ApplyPolicy(NlpPolicy(), /*validate_only=*/true);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(Changes(*checked).size(), 3u);
  EXPECT_EQ(h.core->policy().projects_size(), 1);
  EXPECT_EQ(h.records.count({"meta", "policy"}), 0u);
}

TEST_F(Policies, SurviveTheController) {
  ASSERT_TRUE(h.ApplyPolicy(NlpPolicy()).ok());
  h.RestartController();
  EXPECT_EQ(h.core->policy().projects_size(), 2);
  EXPECT_EQ(h.core->policy().queues(1).priority(), 5);
  EXPECT_EQ(h.core->policy().scheduling().min_run_seconds(), 1);
}

// In use at once: by the controller, by agents that are there, and by those that come.
TEST_F(Policies, LimitsAreInUseAtOnceAndSurviveTheController) {
  h.Run("a", {"n0", "n1"});
  v1::Policy policy;
  policy.mutable_timing()->set_lease_seconds(6);
  policy.mutable_timing()->set_storage_seconds(900);
  const auto applied = h.ApplyPolicy(policy);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_THAT(Changes(*applied),
              ElementsAre("timing  CHANGED lease_seconds 30 -> 6, storage_seconds 600 -> 900"));
  for (const char* node : {"n0", "n1"}) {
    const std::vector<v1::ControllerMessage> said = h.Take(node);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].timing().timing().lease_seconds(), 6);
    EXPECT_EQ(said[0].timing().timing().heartbeat_seconds(), 1);
  }
  h.Pass(5, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.RestartController();
  EXPECT_EQ(h.core->policy().timing().lease_seconds(), 6);
  h.Join("n2");
  EXPECT_EQ(h.LastWelcome("n2").lease_seconds(), 6);
  EXPECT_EQ(h.LastWelcome("n2").timing().storage_seconds(), 900);
}

TEST_F(Policies, AgentsHearNothingOfAPolicyThatLeavesTheLimitsAsTheyAre) {
  ASSERT_TRUE(h.ApplyPolicy(NlpPolicy()).ok());
  EXPECT_THAT(h.Take("n0"), ElementsAre());
}

TEST_F(Policies, AJobOfAnUnknownProjectOrQueueIsRefusedWithTheKnownOnes) {
  const auto refused = h.Create(NlpJob("a"));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(refused.status().message(),
              HasSubstr("project: there is no project nlp — the projects here are default"));
  ASSERT_TRUE(h.ApplyPolicy(NlpPolicy()).ok());
  EXPECT_TRUE(h.Create(NlpJob("a")).ok());
  v1::CreateJobRequest request = Harness::Request("b", 1);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_queue("slow");
  const auto queue = h.Create(request);
  EXPECT_TRUE(absl::IsInvalidArgument(queue.status()));
  EXPECT_THAT(queue.status().message(),
              HasSubstr("resources.queue: there is no queue slow — the queues here are default, "
                        "urgent"));
}

TEST_F(Policies, WhatHasLiveJobsCannotGo) {
  ASSERT_TRUE(h.ApplyPolicy(NlpPolicy()).ok());
  ASSERT_TRUE(h.Create(NlpJob("a")).ok());
  v1::Policy without = NlpPolicy();
  without.clear_projects();
  const auto refused = h.ApplyPolicy(without);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_EQ(ReasonOf(refused.status()), "IN_USE");
  EXPECT_THAT(refused.status().message(), HasSubstr("project nlp has jobs that are not over: a"));
  EXPECT_EQ(h.core->policy().projects_size(), 2);
  ASSERT_TRUE(h.Cancel("a").ok());
  h.SayEnded("n0", "a", 1, kInterrupted);
  ASSERT_EQ(h.Job("a").state(), v1::Job::CANCELLED);
  EXPECT_TRUE(h.ApplyPolicy(without).ok());
}

TEST_F(Policies, UsageCountsDevicesAndJobs) {
  ASSERT_TRUE(h.ApplyPolicy(NlpPolicy()).ok());
  ASSERT_TRUE(h.Create(Harness::Request("whole", 2)).ok());
  ASSERT_TRUE(h.Create(NlpJob("a")).ok());
  const v1::GetPolicyResponse usage = ShowPolicy(*h.core->TakeSnapshot());
  ASSERT_EQ(usage.projects_size(), 2);
  EXPECT_EQ(usage.projects(0).name(), "default");
  EXPECT_EQ(usage.projects(0).active_jobs(), 1);
  EXPECT_EQ(usage.projects(0).devices().at("cpu"), 2);
  EXPECT_EQ(usage.projects(1).queued_jobs(), 1);
  EXPECT_TRUE(usage.projects(1).devices().empty());
  ASSERT_EQ(usage.queues_size(), 2);
  EXPECT_EQ(usage.queues(0).active_jobs(), 1);
  EXPECT_EQ(usage.queues(0).queued_jobs(), 1);
}

using Drain = TwoNodes;

TEST_F(Drain, ADrainedNodeTakesNoNewRanksUntilItIsResumed) {
  const auto drained = h.Drain("nodes/n0");
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_TRUE(drained->drained());
  EXPECT_EQ(drained->free(), 0);
  ASSERT_TRUE(h.Create(Harness::Request("a", 1)).ok());
  ASSERT_EQ(h.Job("a").placement_size(), 1);
  EXPECT_EQ(h.Job("a").placement(0).node(), "nodes/n1");
  ASSERT_TRUE(h.Create(Harness::Request("b", 1)).ok());
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  ASSERT_TRUE(h.Drain("n0", false).ok());
  EXPECT_EQ(h.Job("b").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("b").placement(0).node(), "nodes/n0");
}

TEST_F(Drain, SurvivesControllerAndAgent) {
  ASSERT_TRUE(h.Drain("n0").ok());
  h.RestartController();
  EXPECT_TRUE(h.Node("n0").drained());
  h.Join("n0");
  EXPECT_TRUE(h.Node("n0").drained());
  EXPECT_EQ(h.Node("n0").state(), v1::Node::READY);
  ASSERT_TRUE(h.Drain("n0", false).ok());
  h.RestartController();
  EXPECT_FALSE(h.Node("n0").drained());
}

TEST_F(Drain, TwiceChangesNothing) {
  const auto first = h.Drain("n0");
  const auto second = h.Drain("n0");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->resource_version(), second->resource_version());
}

TEST_F(Drain, OfSeveralNodesIsAllOrNothing) {
  EXPECT_TRUE(absl::IsNotFound(h.DrainTogether({"nodes/n0", "nodes/n7"}).status()));
  EXPECT_FALSE(h.Node("n0").drained());
  ASSERT_TRUE(h.DrainTogether({"nodes/n0", "nodes/n1"}).ok());
  EXPECT_TRUE(h.Node("n0").drained() && h.Node("n1").drained());
}

TEST_F(Drain, AnUnknownNodeIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(h.Drain("n7").status()));
  EXPECT_TRUE(absl::IsNotFound(h.Drain("").status()));
}

TEST(ClusterMap, LevelsAreThoseOfTheLocalitiesAndANodeIsADomain) {
  Harness h;
  h.Join("n10", {}, 2, {{"zone", "z1"}, {"root", "x"}});
  h.Join("n2", {}, 1, {{"zone", "z1"}});
  h.Join("n1", {}, 1, {{"zone", "z0"}, {"row", "a"}});
  ASSERT_TRUE(h.Drain("n2").ok());
  const v1::Topology map = ShowTopology(*h.core->TakeSnapshot());
  EXPECT_THAT(map.levels(), ElementsAre("zone", "domain", "row"));
  EXPECT_EQ(map.domain_level(), "domain");
  EXPECT_EQ(map.pipeline_level(), "zone");
  ASSERT_EQ(map.nodes_size(), 3);
  EXPECT_EQ(map.nodes(0).name(), "n1");
  EXPECT_THAT(map.nodes(0).at(), ElementsAre("z0", "", "a"));
  EXPECT_EQ(map.nodes(1).name(), "n2");
  EXPECT_FALSE(map.nodes(1).healthy());
  EXPECT_THAT(map.nodes(2).free(), ElementsAre(0, 1));
  EXPECT_TRUE(map.nodes(2).healthy());
}

}  // namespace
}  // namespace strata::controller::testing
