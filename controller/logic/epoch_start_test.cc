// How an epoch begins: placing, preparing, agreeing, starting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using testing::kFailed;
using testing::kInterrupted;
using ::testing::Not;
using ::testing::SizeIs;
using testing::TwoNodes;

std::vector<std::string> Unpacked(const v1::StartEpoch& start) {
  v1::Addresses told;
  EXPECT_TRUE(told.ParseFromString(start.packed_addresses()));
  return {told.addresses().begin(), told.addresses().end()};
}

TEST_F(TwoNodes, ANewJobIsPreparedOnFreeDevicesInTheNodesOrder) {
  ASSERT_TRUE(h.Create(Harness::Request("a", 2)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  const auto first = h.Take("n0"), second = h.Take("n1");
  ASSERT_THAT(first, SizeIs(1));
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(first[0].prepare().own(), ElementsAre(0));
  EXPECT_THAT(second[0].prepare().own(), ElementsAre(1));
  EXPECT_EQ(second[0].prepare().ranks(), 2);
  EXPECT_FALSE(first[0].prepare().has_checkpoint());
  EXPECT_EQ(h.Node("n0").free(), 0);
}

TEST_F(TwoNodes, AllPreparedStartsAllWithAddressesByRank) {
  (void)h.Create(Harness::Request("a", 2));
  h.Take("n0");
  h.SayPrepared("n1", "a", 1, {1});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  h.SayPrepared("n0", "a", 1, {0});
  const auto start = h.Take("n0");
  ASSERT_THAT(start, SizeIs(1));
  EXPECT_THAT(start[0].start().addresses(), ElementsAre("address-0", "address-1"));
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  h.SayRunning("n0", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  h.SayRunning("n1", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").parameters(), 7);
}

// Three ranks in a row, of which each exchanges data with its neighbours only.
TEST_F(TwoNodes, ANodeIsToldTheAddressesThatItsRanksNamed) {
  h.Join("n2");
  (void)h.Create(Harness::Request("a", 3));
  for (const char* node : {"n0", "n1", "n2"}) h.Take(node);
  h.SayPrepared("n0", "a", 1, {0}, "d", {{0, {1}}});
  h.SayPrepared("n1", "a", 1, {1}, "d", {{1, {0, 2}}});
  h.SayPrepared("n2", "a", 1, {2}, "d", {{2, {1}}});
  const auto first = h.Take("n0"), second = h.Take("n1"), third = h.Take("n2");
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(first[0].start().ranks(), ElementsAre(0, 1));
  EXPECT_THAT(first[0].start().addresses(), IsEmpty());
  EXPECT_THAT(Unpacked(first[0].start()), ElementsAre("address-0", "address-1"));
  EXPECT_THAT(second[0].start().ranks(), ElementsAre(0, 1, 2));
  EXPECT_THAT(third[0].start().ranks(), ElementsAre(1, 2));
  EXPECT_THAT(Unpacked(third[0].start()), ElementsAre("address-1", "address-2"));
  EXPECT_EQ(third[0].start().nonce(), first[0].start().nonce());
  // Said again to a session that broke.
  h.Reconnect("n2", {Held("a", 1, {2}, false)});
  EXPECT_THAT(h.Take("n2").back().start().ranks(), ElementsAre(1, 2));
}

TEST_F(TwoNodes, AnAgentThatKnowsNoPartialStartIsToldAllAddresses) {
  h.SetProtocol("n1", protocol::kFirstWithSomeAddresses - 1);
  h.Reconnect("n1", {});
  h.Join("n2");
  (void)h.Create(Harness::Request("a", 3));
  h.SayPrepared("n0", "a", 1, {0}, "d", {{0, {1}}});
  h.SayPrepared("n1", "a", 1, {1}, "d", {{1, {0}}});
  h.SayPrepared("n2", "a", 1, {2}, "d", {});  // of an older build
  EXPECT_THAT(Unpacked(h.Take("n0").back().start()), SizeIs(2));
  for (const char* node : {"n1", "n2"}) {
    const auto start = h.Take(node).back().start();
    EXPECT_THAT(start.ranks(), IsEmpty());
    EXPECT_THAT(start.addresses(), ElementsAre("address-0", "address-1", "address-2"));
  }
}

TEST_F(TwoNodes, RanksThatDoNotAgreeWhoIsWhosePeerDoNotStart) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0}, "d", {{0, {1}}});
  h.SayPrepared("n1", "a", 1, {1}, "d", {{1, {}}});
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(),
              HasSubstr("rank 0 exchanges data with rank 1, which does not with rank 0"));
}

// Who was not told it cannot take part: only members are, and only with START.
TEST_F(TwoNodes, EachEpochHasANonceOfItsOwn_KnownToItsMembersAlone) {
  h.Join("n2");
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  const auto first = h.Take("n0"), second = h.Take("n1");
  ASSERT_THAT(first, SizeIs(2));
  const std::string nonce = first[1].start().nonce();
  EXPECT_THAT(nonce, SizeIs(16));
  EXPECT_EQ(second[1].start().nonce(), nonce);
  EXPECT_THAT(h.Take("n2"), IsEmpty());
  EXPECT_THAT(h.core->ShowJob(h.Job("a")).SerializeAsString(), Not(HasSubstr(nonce)));

  // A controller that says START again, after its own restart, says the same.
  h.RestartController();
  h.Join("n0", {Held("a", 1, {0}, false)});
  h.Take("n0");
  h.SayPrepared("n0", "a", 1, {0});
  h.Join("n1", {Held("a", 1, {1}, false)});
  h.SayPrepared("n1", "a", 1, {1});
  std::string again;
  for (const auto& message : h.Take("n1")) {
    if (message.has_start()) again = message.start().nonce();
  }
  EXPECT_EQ(again, nonce);

  h.SayEnded("n0", "a", 1, kFailed, "rank 0 died", 0);
  h.SayEnded("n1", "a", 1, kFailed, "rank 1 died", 1);
  h.Pass(2, {"n0", "n1"});
  ASSERT_EQ(h.Job("a").epoch(), 2);
  EXPECT_THAT(h.Job("a").epoch_nonce(), IsEmpty());
  h.SayPrepared("n0", "a", 2, {0});
  h.SayPrepared("n1", "a", 2, {1});
  EXPECT_THAT(h.Job("a").epoch_nonce(), SizeIs(16));
  EXPECT_NE(h.Job("a").epoch_nonce(), nonce);
}

// Who looks at the job is told that its processes are not its owner's.
TEST_F(TwoNodes, WhatANodeHasToSayOfItsProcessesStandsInTheReason) {
  v1::CreateJobRequest request = Harness::Request("a", 2);
  request.mutable_job()->set_owner("users/ann");
  (void)h.Create(request);
  const auto asked = h.Take("n0");
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].prepare().run_as(), "ann");
  h.SayPrepared("n0", "a", 1, {0});
  v1::AgentMessage message;
  v1::EpochPrepared& prepared = *message.mutable_prepared();
  prepared.mutable_epoch()->set_job("jobs/a");
  prepared.mutable_epoch()->set_epoch(1);
  prepared.mutable_epoch()->set_uid(h.Job("a").uid());
  v1::EpochPrepared::Rank& rank = *prepared.add_ranks();
  rank.set_rank(1);
  rank.mutable_prepared()->set_plan_digest("d");
  prepared.mutable_plan()->add_notices()->set_text(
      "its processes run as the agent's user, not as ann");
  h.Say("n1", std::move(message));
  h.SayRunning("n0", "a", 1);
  h.SayRunning("n1", "a", 1);
  EXPECT_EQ(h.Job("a").reason(),
            "trains on n0 and n1; its processes run as the agent's user, not as ann (on n1)");
}

TEST_F(TwoNodes, PreparedTwiceStartsOnce) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n0", "a", 1, {0});
  h.Take("n0");
  h.SayPrepared("n1", "a", 1, {1});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
}

TEST_F(TwoNodes, DifferentPlansFailTheJobAndNameTheRanks) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0}, "one");
  h.SayPrepared("n1", "a", 1, {1}, "other");
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("ranks 0 and 1 follow different plans"));
  EXPECT_TRUE(h.Take("n0").back().has_stop());
  EXPECT_TRUE(h.Take("n1").back().has_stop());
}

TEST_F(TwoNodes, APermanentProblemFailsTheJobWithItsField) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayProblem("n1", "a", 1, /*permanent=*/true);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").reason(), "data.train[0].path: no such file (on n1)");
}

TEST_F(TwoNodes, APassingProblemIsTriedAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayProblem("n1", "a", 1, /*permanent=*/false);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "start_failed");
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

// What the two nodes find of the job's one data file when they prepare its ranks.
class DataFiles : public TwoNodes {
 protected:
  void SayFound(const std::string& node, int rank, int64_t bytes, const std::string& digest) {
    v1::AgentMessage message;
    v1::EpochPrepared& prepared = *message.mutable_prepared();
    prepared.mutable_epoch()->set_job("jobs/a");
    prepared.mutable_epoch()->set_epoch(h.Job("a").epoch());
    prepared.mutable_epoch()->set_uid(h.Job("a").uid());
    v1::EpochPrepared::Rank& said = *prepared.add_ranks();
    said.set_rank(rank);
    said.mutable_prepared()->set_plan_digest("d");
    v1::DataFile& file = *prepared.mutable_plan()->add_data_files();
    file.set_path("/data/a.bin");
    file.set_bytes(bytes);
    file.set_digest(digest);
    h.Say(node, std::move(message));
  }
  void BothFind(int64_t bytes, const std::string& digest) {
    SayFound("n0", 0, bytes, digest);
    SayFound("n1", 1, bytes, digest);
  }
  void RestartOfItsRanks() {
    const int64_t epoch = h.Job("a").epoch();
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
    h.Pass(5, {"n0", "n1"});
    ASSERT_EQ(h.Job("a").state(), v1::Job::STARTING);
  }
};

TEST_F(DataFiles, ThatDifferBetweenNodesFailTheJobAndNameTheNode) {
  (void)h.Create(Harness::Request("a", 2));
  SayFound("n0", 0, 100, "one");
  SayFound("n1", 1, 120, "other");
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(),
              HasSubstr("not the same on all nodes: /data/a.bin: its size went from 100 to 120 "
                        "bytes (on n1), compared with n0"));
}

TEST_F(DataFiles, ThatChangeBeforeTheFirstCheckpointFailTheJob) {
  (void)h.Create(Harness::Request("a", 2));
  BothFind(100, "one");
  h.SayRunning("n0", "a", 1);
  h.SayRunning("n1", "a", 1);
  ASSERT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.RestartController();  // which keeps them
  h.Join("n0", {Held("a", 1, {0}, true)});
  h.Join("n1", {Held("a", 1, {1}, true)});
  RestartOfItsRanks();
  SayFound("n0", 0, 100, "other");
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(), AllOf(HasSubstr("not what the job began with: /data/a.bin: its "
                                                   "content differs"),
                                         HasSubstr("(on n0)"), HasSubstr("start a new job")));
  EXPECT_EQ(h.Job("a").events(h.Job("a").events_size() - 1).cause(), "data_changed");
}

TEST_F(DataFiles, ThatAreTheSameLetItsRanksStartAgain) {
  (void)h.Create(Harness::Request("a", 2));
  BothFind(100, "one");
  h.SayRunning("n0", "a", 1);
  h.SayRunning("n1", "a", 1);
  RestartOfItsRanks();
  BothFind(100, "one");
  h.SayRunning("n0", "a", 2);
  h.SayRunning("n1", "a", 2);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
}

TEST_F(DataFiles, MayChangeUntilItsRanksBeginForTheFirstTime) {
  (void)h.Create(Harness::Request("a", 2));
  SayFound("n0", 0, 100, "one");
  h.SayProblem("n1", "a", 1, /*permanent=*/false);
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  ASSERT_EQ(h.Job("a").epoch(), 2);
  BothFind(120, "other");
  h.SayRunning("n0", "a", 2);
  h.SayRunning("n1", "a", 2);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
}

class Refusals : public TwoNodes {
 protected:
  // Each start of the job's ranks is refused, for so long or until it has failed.
  void RefuseFor(double seconds) {
    for (double passed = 0; passed < seconds && h.Job("a").state() != v1::Job::FAILED;
         passed += 0.5) {
      if (const int64_t epoch = h.Job("a").epoch(); h.Job("a").state() == v1::Job::STARTING) {
        h.SayProblem("n1", "a", epoch, /*permanent=*/false);
        h.SayEnded("n0", "a", epoch, kInterrupted);
        h.SayEnded("n1", "a", epoch, kInterrupted);
      }
      h.Pass(0.5, {"n0", "n1"});
    }
  }
  void Crash() {
    const int64_t epoch = h.Job("a").epoch();
    h.SayEnded("n0", "a", epoch, kFailed, "crash", 0);
    h.SayEnded("n1", "a", epoch, kInterrupted);
  }
};

TEST_F(Refusals, OfAJobThatHasTrainedUseUpItsBudgetOnlyAfterAMinute) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "digest");
  Crash();
  RefuseFor(55);
  EXPECT_NE(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 0);
  EXPECT_LT(h.Job("a").epoch(), 20);
  RefuseFor(60);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("no such file"));
}

TEST_F(Refusals, BeginAnewOnceTheRanksHaveRun) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "digest");
  Crash();
  RefuseFor(55);
  h.Pass(10, {"n0", "n1"});
  Start("a");
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  Crash();
  RefuseFor(55);
  EXPECT_NE(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").restarts_without_progress(), 1);
}

TEST_F(Refusals, OfAJobThatNeverTrainedUseUpItsBudgetAtOnce) {
  (void)h.Create(Harness::Request("a", 2));
  RefuseFor(10);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
}

TEST_F(TwoNodes, AnEpochThatDoesNotPrepareInTimeIsGivenUp) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.Pass(660, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").reason(), "n1 did not prepare its ranks within 660.2 s");
}

TEST_F(TwoNodes, AnEndBeforePreparationIsConfirmedBeforeTheDeviceIsFree) {
  (void)h.Create(Harness::Request("a", 2));
  h.Reconnect("n1", {});  // is asked once more
  h.Take("n1");
  h.SayEnded("n1", "a", 1, kFailed, "out of memory", 1);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_TRUE(h.Take("n1").back().has_stop());
  EXPECT_EQ(h.Node("n1").free(), 0);
  h.SayEnded("n0", "a", 1, kInterrupted);
  h.SayEnded("n1", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, ALostPrepareIsSaidAgainToTheSameEpoch) {
  (void)h.Create(Harness::Request("a", 2));
  h.Take("n1");
  h.Reconnect("n1", {});
  const auto again = h.Take("n1");
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].prepare().epoch().epoch(), 1);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_EQ(h.Node("n1").free(), 0);
}

TEST_F(TwoNodes, ALostStartIsSaidAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.Take("n1");
  h.Reconnect("n1", {Held("a", 1, {1}, false)});
  EXPECT_THAT(h.Take("n1").back().start().addresses(), SizeIs(2));
}

TEST_F(TwoNodes, AStartGoesOnAfterAControllersRestart) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.RestartController();
  h.Take("n0");
  h.Reconnect("n0", {Held("a", 1, {0}, false)});
  EXPECT_TRUE(h.Take("n0").back().has_prepare());
  h.Reconnect("n1", {});
  EXPECT_TRUE(h.Take("n1").back().has_prepare());
  Start("a");
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

}  // namespace
}  // namespace strata::controller
