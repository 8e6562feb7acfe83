// Which cluster, store and job is meant: names may come again, uids do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"
#include "controller/logic/restored_store.h"
#include "controller/logic/two_nodes.h"
#include "protocol/versions.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::SizeIs;
using testing::TwoNodes;

constexpr char kGarbage[] = "\xff\xff\xff";

class StoreRecords : public TwoNodes {
 protected:
  std::vector<Write> All() const {
    std::vector<Write> all;
    for (const auto& [key, write] : h.records) all.push_back(write);
    return all;
  }
  absl::Status Load() const {
    const common::ManualClock clock;
    return Core(&clock).Load(All(), 1).status();
  }
};

TEST_F(StoreRecords, ThatCannotBeReadRefuseTheStartAndAreNamed) {
  h.Run("a", {"n0", "n1"});
  (void)h.ApplyPolicy({});
  h.records[{"meta", "policy"}] = {"meta", "policy", v1::Policy().SerializeAsString()};
  ASSERT_TRUE(Load().ok());
  for (const auto& [key, write] : std::map(h.records)) {
    h.records[key].value = kGarbage;
    const absl::Status status = Load();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << key.first << "/" << key.second;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(key.first, "/", key.second)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--discard-record"));
    h.records[key] = write;
  }
  h.records[{"meta", "controller_term"}].value = "-3";
  EXPECT_EQ(Load().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StoreRecords, UnderAnothersNameRefuseTheStart) {
  h.Run("a", {"n0", "n1"});
  h.records[{"jobs", "jobs/b"}] = {"jobs", "jobs/b", h.records[{"jobs", "jobs/a"}].value};
  EXPECT_THAT(std::string(Load().message()), HasSubstr("jobs/jobs/b"));
}

TEST_F(StoreRecords, OfLaterReleasesAreLeftAlone) {
  h.records[{"news", "x"}] = {"news", "x", kGarbage};
  h.records[{"meta", "x"}] = {"meta", "x", kGarbage};
  EXPECT_TRUE(Load().ok());
}

TEST_F(TwoNodes, EachJobHasAUidThatItsRanksAreStartedWith) {
  (void)h.Create(Harness::Request("a", 1));
  (void)h.Create(Harness::Request("b", 1));
  const std::string uid = h.Job("a").uid();
  EXPECT_THAT(uid, SizeIs(36));
  EXPECT_NE(uid, h.Job("b").uid());
  EXPECT_EQ(h.Take("n0").back().prepare().epoch().uid(), uid);
  h.RestartController();
  EXPECT_EQ(h.Job("a").uid(), uid);
  v1::CreateJobRequest only = Harness::Request("c", 1);
  only.set_validate_only(true);
  EXPECT_EQ(h.Create(only)->uid(), "");
}

// The name comes again while ranks of the first job of that name live on.
class NameComesAgain : public TwoNodes {
 protected:
  NameComesAgain() {
    h.Run("a", {"n0", "n1"});
    first_ = Held("a", 1, {0}, true);
    first_.mutable_epoch()->set_uid(h.Job("a").uid());
    h.records.erase({"jobs", "jobs/a"});
    h.RestartController();
    h.Join("n1");
    h.Join("n2");
    h.Take("n1");
    v1::CreateJobRequest request = Harness::Request("a", 2);
    (void)h.Create(request);
  }
  v1::HeldEpoch first_;
};

TEST_F(NameComesAgain, ItsFirstEpochRunsAndTheZombieIsStopped) {
  ASSERT_NE(h.Job("a").uid(), first_.epoch().uid());
  ASSERT_EQ(h.Job("a").epoch(), 1);
  h.Join("n0", {first_});
  EXPECT_THAT(h.LastWelcome("n0").keep(), SizeIs(0));
  const auto told = h.Take("n0");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].stop().epoch().uid(), first_.epoch().uid());
  h.SayPrepared("n1", "a", 1, {0});
  h.SayPrepared("n2", "a", 1, {1});
  h.SayRunning("n1", "a", 1);
  h.SayRunning("n2", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
}

TEST_F(NameComesAgain, TheZombieCommitsNothingAndMovesNoStep) {
  h.SayPrepared("n1", "a", 1, {0});
  h.SayPrepared("n2", "a", 1, {1});
  h.SayRunning("n1", "a", 1);
  h.SayRunning("n2", "a", 1);
  h.Take("n1");
  // Even from a node that has ranks of the job that the name means now.
  v1::AgentMessage commit;
  *commit.mutable_commit()->mutable_epoch() = first_.epoch();
  commit.mutable_commit()->mutable_checkpoint()->set_step(20);
  commit.mutable_commit()->mutable_checkpoint()->set_manifest_digest("m");
  commit.mutable_commit()->mutable_checkpoint()->set_path("/jobs/a/step-20");
  h.Say("n1", commit);
  const auto answers = h.Take("n1");
  ASSERT_FALSE(answers.empty());
  EXPECT_FALSE(answers.back().commit().accepted());
  EXPECT_FALSE(h.Job("a").has_checkpoint());
  v1::AgentMessage progress;
  *progress.mutable_progress()->mutable_epoch() = first_.epoch();
  progress.mutable_progress()->mutable_progress()->mutable_step()->set_step(50);
  h.Say("n1", progress);
  EXPECT_EQ(h.Job("a").step(), 0);
  h.SayStep("n1", "a", 1, 3);
  EXPECT_EQ(h.Job("a").step(), 3);
}

v1::AgentMessage Hello(const std::string& node) {
  v1::AgentMessage message;
  message.set_incarnation(1);
  message.mutable_register_()->set_node(node);
  message.mutable_register_()->set_device("cpu");
  message.mutable_register_()->set_devices(1);
  return message;
}

TEST_F(TwoNodes, AgentsOfAnotherClusterAreSentAwayAndMayComeAgain) {
  const v1::StoreIdentity identity = h.core->identity();
  EXPECT_THAT(identity.cluster(), SizeIs(36));
  EXPECT_EQ(h.LastWelcome("n0").cluster(), identity.cluster());
  EXPECT_EQ(h.LastWelcome("n0").store_incarnation(), identity.incarnation());
  v1::AgentMessage stranger = Hello("n7");
  stranger.mutable_register_()->set_cluster("another");
  Effects effects;
  h.core->OnAgent(77, stranger, effects);
  ASSERT_THAT(effects.refused, SizeIs(1));
  EXPECT_EQ(effects.refused[0].session, 77u);
  EXPECT_EQ(ReasonOf(effects.refused[0].status), "OTHER_CLUSTER");
  EXPECT_THAT(effects.messages, SizeIs(0));
  stranger.mutable_register_()->set_cluster(identity.cluster());
  h.core->OnAgent(78, stranger, effects);
  EXPECT_THAT(effects.messages, SizeIs(1));
  h.RestartController();
  EXPECT_EQ(h.core->identity().cluster(), identity.cluster());
  EXPECT_EQ(h.core->identity().incarnation(), identity.incarnation());
}

TEST_F(TwoNodes, AgentsOfTooLateAProtocolAreSentAway) {
  v1::AgentMessage late = Hello("n7");
  late.mutable_register_()->mutable_protocol()->set_least(protocol::kGreatest + 1);
  late.mutable_register_()->mutable_protocol()->set_greatest(protocol::kGreatest + 1);
  Effects effects;
  h.core->OnAgent(77, late, effects);
  ASSERT_THAT(effects.refused, SizeIs(1));
  EXPECT_EQ(ReasonOf(effects.refused[0].status), "OTHER_PROTOCOL");
}

TEST_F(StoreRecords, OfABackupBeginAnotherLifeAboveAllThatMayHaveBeen) {
  h.Run("a", {"n0", "n1"});
  (void)h.Create(Harness::Request("b", 2));
  (void)h.Cancel("b");
  const v1::StoreIdentity before = h.core->identity();
  const int64_t term = h.core->controller_term(), version = h.core->resource_version();
  std::set<std::string> lives = {before.incarnation()};
  for (const uint64_t seed : {1, 2}) {  // two copies of one backup
    const auto writes = AfterRestore(All(), common::SeededEntropy(seed));
    ASSERT_TRUE(writes.ok());
    Harness restored;
    restored.records = h.records;
    for (const Write& write : *writes) restored.records[{write.table, write.key}] = write;
    restored.RestartController();
    const v1::StoreIdentity identity = restored.core->identity();
    EXPECT_EQ(identity.cluster(), before.cluster());
    EXPECT_TRUE(lives.insert(identity.incarnation()).second);
    ASSERT_THAT(identity.earlier(), SizeIs(1));
    EXPECT_EQ(identity.earlier(0), before.incarnation());
    EXPECT_GT(restored.core->controller_term(), term + kRestoredTerms);
    EXPECT_GE(restored.core->resource_version(), version + kRestoredVersions);
    EXPECT_TRUE(restored.Job("a").restored());
    EXPECT_EQ(restored.Job("a").epoch(), 1);
    EXPECT_EQ(restored.Job("a").least_epoch(), 1 + kRestoredEpochs);
    EXPECT_FALSE(restored.Job("b").restored());
  }
}

}  // namespace
}  // namespace strata::controller
