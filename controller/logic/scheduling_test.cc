// Who runs where: what the controller makes of the scheduler's decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;
using testing::Harness;
using ::testing::HasSubstr;
using testing::kFailed;
using testing::kInterrupted;
using testing::TwoNodes;

std::vector<std::string> Places(const v1::JobRecord& job) {
  std::vector<std::string> places;
  for (const v1::RankPlace& place : job.placement()) {
    places.push_back(absl::StrCat(place.node().substr(6), ".", place.device()));
  }
  return places;
}

v1::CreateJobRequest WithTensor(const std::string& name, int tensor, int data) {
  v1::CreateJobRequest request = Harness::Request(name, tensor * data);
  request.mutable_job()->mutable_spec()->mutable_parallel()->set_tensor(tensor);
  request.mutable_job()->mutable_spec()->mutable_parallel()->set_data(data);
  return request;
}

TEST(Placed, TensorGroupsLieInsideOneNodeWhereNodesNameNoDomain) {
  Harness h;
  h.Join("n0", {}, 3);
  h.Join("n1", {}, 3);
  ASSERT_TRUE(h.Create(WithTensor("a", 2, 2)).ok());
  ASSERT_EQ(h.Job("a").placement_size(), 4);
  EXPECT_EQ(h.Job("a").placement(0).node(), h.Job("a").placement(1).node());
  EXPECT_EQ(h.Job("a").placement(2).node(), h.Job("a").placement(3).node());
  EXPECT_EQ(h.Job("a").layout().order(0), "tensor");
  EXPECT_EQ(h.Job("a").layout().data(), 2);
}

TEST(Placed, ATensorGroupMaySpanTheNodesOfOneDomain) {
  Harness h;
  h.Join("n0", {}, 1, {{"domain", "d0"}});
  h.Join("n1", {}, 1, {{"domain", "d0"}});
  EXPECT_TRUE(h.Create(WithTensor("a", 2, 1)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
}

TEST(Placed, ATensorGroupThatNoDomainHoldsIsInfeasible) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  const absl::Status status = h.Create(WithTensor("a", 2, 1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Placed, RanksThatAreNoProductOfTheDegreesAreRefused) {
  Harness h;
  v1::CreateJobRequest request = WithTensor("a", 2, 2);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_ranks(5);
  EXPECT_EQ(h.Create(request).status().code(), absl::StatusCode::kInvalidArgument);
}

v1::CreateJobRequest WithRuns(const std::string& name, int ranks, int run,
                              const std::string& within, bool preferred = false) {
  v1::CreateJobRequest request = Harness::Request(name, ranks);
  v1::ResourcesSpec& resources = *request.mutable_job()->mutable_spec()->mutable_resources();
  v1::TopologyConstraint& constraint = *resources.add_topology();
  constraint.set_ranks(run);
  constraint.set_within(within);
  constraint.set_preferred(preferred);
  return request;
}

TEST(Placed, RunsOfRanksLieInsideOneGroupOfTheirLevel) {
  Harness h;
  for (int i = 0; i < 6; ++i) {
    h.Join(absl::StrCat("n", i), {}, 1, {{"rack", absl::StrCat("r", i / 3)}});
  }
  ASSERT_TRUE(h.Create(WithRuns("a", 4, 2, "rack")).ok());
  const v1::JobRecord& job = h.Job("a");
  ASSERT_EQ(job.placement_size(), 4);
  const auto rack = [&](int rank) { return (job.placement(rank).node().back() - '0') / 3; };
  EXPECT_EQ(rack(0), rack(1));
  EXPECT_EQ(rack(2), rack(3));
  EXPECT_NE(rack(0), rack(2));
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n"),
              HasSubstr("Each run of 2 ranks lies inside one rack, as is required."));
  // Two nodes are left, in two racks: enough by number.
  ASSERT_TRUE(h.Create(WithRuns("b", 2, 2, "rack")).ok());
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  const auto why = h.core->ExplainJob("jobs/b");
  EXPECT_EQ(why->blockers(0).code(), "TOPOLOGY");
  EXPECT_THAT(why->blockers(0).text(),
              HasSubstr("needs 1 run of 2 ranks inside one rack; what is free holds 0"));
  ASSERT_TRUE(h.Cancel("b").ok());
  ASSERT_TRUE(h.Create(WithRuns("c", 2, 2, "rack", /*preferred=*/true)).ok());
  EXPECT_EQ(h.Job("c").state(), v1::Job::STARTING);
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/c")->lines(), "\n"),
              HasSubstr("does not lie inside one rack, as is preferred: there was no room."));
}

TEST(Placed, RunsThatNoGroupHoldsAndLevelsThatDoNotExistAreRefused) {
  Harness h;
  for (int i = 0; i < 4; ++i) {
    h.Join(absl::StrCat("n", i), {}, 1, {{"rack", absl::StrCat("r", i / 2)}});
  }
  const absl::Status never = h.Create(WithRuns("a", 3, 3, "rack")).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(never.message()), HasSubstr("the whole cluster holds 0"));
  const absl::Status unknown = h.Create(WithRuns("a", 2, 2, "aisle")).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("its levels are rack, domain and node"));
}

// A job of eight ranks on four nodes in two zones.
v1::CreateJobRequest OnTwoZones(Harness& h, const std::string& device) {
  for (int i = 0; i < 4; ++i) {
    const std::string node = absl::StrCat("n", i);
    h.SetDevice(node, device);
    h.Join(node, {}, 2, {{"zone", absl::StrCat("z", i / 2)}});
  }
  v1::CreateJobRequest request = WithTensor("a", 2, 4);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_device(device);
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.mutable_train()->set_sequence(128);
  spec.mutable_train()->set_global_batch(8);
  v1::ModelSpec& model = *request.mutable_job()->mutable_model();  // spec.model has no sizes
  model.set_family(v1::ModelSpec::FAMILY_LLAMA);
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_ffn(128);
  model.set_vocab(256);
  model.set_context(128);
  return request;
}

TEST(Placed, ExplainTellsHowLongAStepTakesWhereItsRanksAre) {
  Harness h;
  ASSERT_TRUE(h.Create(OnTwoZones(h, "h100")).ok());
  const std::string lines = absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n");
  EXPECT_THAT(lines, ::testing::ContainsRegex(
                         "A step is predicted to take [0-9.]+ m?s where its ranks are; in other "
                         "orders of the same devices: contiguous [0-9.]+ m?s, random [0-9.]+ m?s, "
                         "hostname [0-9.]+ m?s\\."));
}

TEST(Placed, ExplainTellsLevelsOrderAndBytes) {
  Harness h;
  ASSERT_TRUE(h.Create(OnTwoZones(h, "cpu")).ok());
  const auto why = h.core->ExplainJob("jobs/a");
  ASSERT_EQ(why->mesh_size(), 4);
  EXPECT_EQ(why->mesh(0).name(), "tensor");
  EXPECT_EQ(why->mesh(0).degree(), 2);
  ASSERT_EQ(why->ranks_size(), 8);
  EXPECT_THAT(why->ranks(5).coordinates(), ElementsAre(1, 0, 0, 2));
  EXPECT_EQ(why->ranks(5).node(), h.Job("a").placement(5).node());
  const std::string lines = absl::StrJoin(why->lines(), "\n");
  EXPECT_THAT(lines, HasSubstr("It lies in zone z0, z1"));
  EXPECT_THAT(lines, HasSubstr("numbered tensor, then data (innermost first)"));
  EXPECT_THAT(lines, HasSubstr("contiguous order: "));
  EXPECT_THAT(lines, HasSubstr("hostname order: "));
  EXPECT_THAT(lines, ::testing::Not(HasSubstr("A step is predicted")));  // CPUs are not known
}

TEST(Queued, AJobOverItsProjectsQuotaWaitsAndOthersPassIt) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  v1::Policy policy;
  policy.add_projects()->set_name("p");
  (*policy.mutable_projects(0)->mutable_quota())["cpu"] = 1;
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  for (const char* name : {"a", "b"}) {
    v1::CreateJobRequest request = Harness::Request(name, 1);
    request.mutable_job()->mutable_spec()->set_project("p");
    ASSERT_TRUE(h.Create(request).ok());
  }
  ASSERT_TRUE(h.Create(Harness::Request("c", 1)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("c").state(), v1::Job::STARTING);
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/b")->lines(), "\n"), HasSubstr("over quota"));
  EXPECT_THAT(h.core->ShowJob(h.Job("b")).reason(), HasSubstr("over quota of project p"));
  EXPECT_EQ(h.core->ShowJob(h.Job("a")).reason(), h.Job("a").reason());
}

TEST(Queued, ThousandsThatWaitAreDecidedAboutAFewTimesASecond) {
  Harness h;
  h.Join("n0");
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(h.Create(Harness::Request(absl::StrCat("j", i), 1)).ok());
  }
  h.decisions.clear();
  for (int i = 0; i < 50; ++i) {
    h.SayEnded("n0", "j0", 1, kFailed, "crash", 0);  // an answer frees nothing more
    ASSERT_TRUE(h.Create(Harness::Request(absl::StrCat("k", i), 1)).ok());
  }
  EXPECT_LE(h.decisions.size(), 2u);
}

// Rank 1's node is gone for good.
class Lost : public TwoNodes {
 protected:
  Lost() {
    h.Run("a", {"n0", "n1"});
    h.SayStep("n0", "a", 1, 20);
    h.SayCommit("n0", "a", 1, 20, "m20");
    h.EndSession("n1");
    h.SayHang("n0", "a", 1, 1, {1});
    h.SayEnded("n0", "a", 1, kInterrupted);
    h.Take("n0");
  }
};

TEST_F(Lost, TheOtherRanksKeepTheirPlacesWhenASpareComes) {
  h.Join("n2");
  h.Pass(6, {"n0", "n2"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_THAT(Places(h.Job("a")), ElementsAre("n0.0", "n2.0"));
}

TEST_F(Lost, ItGoesOnWithFewerRanksAfterAWhile) {
  h.Pass(55, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.Pass(10, {"n0"});
  ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_THAT(Places(h.Job("a")), ElementsAre("n0.0"));
  EXPECT_EQ(h.Job("a").layout().data(), 1);
  const v1::PrepareEpoch prepare = h.Take("n0").back().prepare();
  EXPECT_EQ(prepare.ranks(), 1);
  EXPECT_EQ(prepare.spec().parallel().data(), 1);
  EXPECT_EQ(prepare.spec().parallel().virtual_shards(), 2);
  EXPECT_EQ(prepare.spec().resources().ranks(), 1);
  EXPECT_EQ(h.Job("a").spec().resources().ranks(), 2);  // what was asked for stays
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/a")->lines(), "\n"),
              HasSubstr("data degree of 1 instead of 2"));
}

TEST_F(Lost, WhatIsLearnedThenIsOfTheLayoutThatItHas) {
  h.Pass(65, {"n0"});
  const int64_t epoch = h.Job("a").epoch();
  h.SayPrepared("n0", "a", epoch, {0});
  h.SayRunning("n0", "a", epoch);
  for (int64_t step = 21; step <= 37; ++step) {
    v1::AgentMessage message;
    v1::EpochProgress& progress = *message.mutable_progress();
    progress.mutable_epoch()->set_job("jobs/a");
    progress.mutable_epoch()->set_epoch(epoch);
    v1::StepRecord& record = *progress.mutable_progress()->mutable_step();
    record.set_step(step);
    record.set_seconds(3);
    record.set_predicted_seconds(2);
    h.Say("n0", std::move(message));
  }
  const planner::LearnedFamilies learned = h.core->plan_families().ToList();
  ASSERT_EQ(learned.size(), 1);
  EXPECT_EQ(learned[0].layout(), "data 1");
}

TEST_F(Lost, FewerRanksSurviveTheController) {
  h.Pass(65, {"n0"});
  ASSERT_EQ(h.Job("a").layout().data(), 1);
  h.RestartController();
  h.Take("n0");
  h.Reconnect("n0", {});
  EXPECT_EQ(h.Take("n0").back().prepare().spec().parallel().data(), 1);
}

// A job of one rank that breaks again and again, with progress in between.
void Break(Harness& h, const std::string& job, const std::vector<std::string>& beating) {
  const int64_t epoch = h.Job(job).epoch();
  const std::string node = h.Job(job).placement(0).node().substr(6);
  h.SayPrepared(node, job, epoch, {0});
  h.SayRunning(node, job, epoch);
  h.SayCommit(node, job, epoch, epoch, absl::StrCat("m", epoch));
  h.SayEnded(node, job, epoch, kFailed, "crash", 0);
  h.Pass(1, beating);
}

TEST(Quarantine, ANodeThatIsToBlameThreeTimesTakesNoNewRanks) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  (void)h.Create(Harness::Request("a", 1));
  Break(h, "a", {"n0", "n1"});
  Break(h, "a", {"n0", "n1"});
  EXPECT_EQ(Places(h.Job("a")), std::vector<std::string>{"n0.0"});
  h.RestartController();  // it remembers
  h.Reconnect("n0", {testing::Held("a", 3, {0}, false)});
  h.Reconnect("n1", {});
  Break(h, "a", {"n0", "n1"});
  EXPECT_TRUE(h.Node("n0").quarantined());
  EXPECT_THAT(h.Node("n0").quarantine_reason(), HasSubstr("3 failures within an hour"));
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(Places(h.Job("a")), std::vector<std::string>{"n1.0"});
  // One of two is the most: whatever else happens, n1 goes on.
  for (int i = 0; i < 4; ++i) Break(h, "a", {"n0", "n1"});
  EXPECT_FALSE(h.Node("n1").quarantined());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  (void)h.Drain("n0", false);
  EXPECT_FALSE(h.Node("n0").quarantined());
}

TEST(Quarantine, AJobThatFailsForGoodOnSeveralNodesWasToBlameItself) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  (void)h.Create(Harness::Request("a", 1));
  for (int64_t epoch = 1; epoch <= 4; ++epoch) {
    const std::string node = epoch < 4 ? "n0" : "n1";
    ASSERT_EQ(Places(h.Job("a")), std::vector<std::string>{node + ".0"});
    h.SayPrepared(node, "a", epoch, {0});
    h.SayRunning(node, "a", epoch);
    EXPECT_EQ(h.Node("n0").quarantined(), epoch == 4);
    h.SayEnded(node, "a", epoch, kFailed, "crash", 0);
    h.Pass(1, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_FALSE(h.Node("n0").quarantined());
}

TEST(Quarantine, WhoseAFailureWasSurvivesTheController) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  (void)h.Create(Harness::Request("a", 1));
  for (int64_t epoch = 1; epoch <= 4; ++epoch) {
    const std::string node = epoch < 4 ? "n0" : "n1";
    h.SayPrepared(node, "a", epoch, {0});
    h.SayRunning(node, "a", epoch);
    h.RestartController();
    for (const std::string other : {"n0", "n1"}) {
      std::vector<v1::HeldEpoch> held;
      if (other == node) held.push_back(testing::Held("a", epoch, {0}, true));
      h.Reconnect(other, held);
    }
    EXPECT_EQ(h.Node("n0").quarantined(), epoch == 4);
    h.SayEnded(node, "a", epoch, kFailed, "crash", 0);
    h.Pass(1, {"n0", "n1"});
  }
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_FALSE(h.Node("n0").quarantined());
  EXPECT_EQ(h.Node("n0").failure_jobs_size(), 0);
}

TEST(Quarantine, ARecordOfAnEarlierReleaseDoesNotSayWhoseAFailureWas) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  (void)h.Create(Harness::Request("a", 1));
  Break(h, "a", {"n0", "n1"});
  v1::Node record;
  ASSERT_TRUE(record.ParseFromString(h.records[{"nodes", "nodes/n0"}].value));
  ASSERT_EQ(record.failure_jobs_size(), 1);
  record.clear_failure_jobs();
  h.records[{"nodes", "nodes/n0"}].value = record.SerializeAsString();
  h.RestartController();
  EXPECT_EQ(h.Node("n0").failure_times_size(), 1);
  EXPECT_EQ(h.Node("n0").failure_jobs(0), "");
}

TEST(Quarantine, ANodeWithoutWhichTheJobCouldNotRunIsLeft) {
  Harness h;
  h.Join("n0");
  (void)h.Create(Harness::Request("a", 1));
  for (int i = 0; i < 5; ++i) Break(h, "a", {"n0"});
  EXPECT_FALSE(h.Node("n0").quarantined());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
}

TEST(Quarantine, FailuresOfLongAgoAreForgotten) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  (void)h.Create(Harness::Request("a", 1));
  Break(h, "a", {"n0", "n1"});
  Break(h, "a", {"n0", "n1"});
  h.Pass(3700, {"n0", "n1"});
  Break(h, "a", {"n0", "n1"});
  EXPECT_FALSE(h.Node("n0").quarantined());
}

}  // namespace
}  // namespace strata::controller
