// Agents that say what is not theirs to say: nodes without ranks of a job, and members that speak
// for others. What they say changes nothing, whether or not anybody knows who they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using ::testing::HasSubstr;

// Job a runs on n0 and n1; n2 has nothing to do with it.
class Forgery : public testing::TwoNodes {
 protected:
  Forgery() {
    h.Join("n2");
    h.Run("a", {"n0", "n1"});
    EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
    EXPECT_TRUE(h.Node("n2").jobs().empty());
    for (const char* node : {"n0", "n1", "n2"}) h.Take(node);
  }
  // What the controller answers to a commit of `node`.
  v1::CommitAnswer Commit(const std::string& node, int64_t epoch, int64_t step) {
    h.Take(node);
    h.SayCommit(node, "a", epoch, step, "digest");
    for (const v1::ControllerMessage& message : h.Take(node)) {
      if (message.has_commit()) return message.commit();
    }
    ADD_FAILURE() << node << " got no answer";
    return {};
  }
};

TEST_F(Forgery, AnOutsiderCommitsNothing) {
  const v1::CommitAnswer answer = Commit("n2", 1, 50);
  EXPECT_FALSE(answer.accepted());
  EXPECT_FALSE(h.Job("a").has_checkpoint());
  EXPECT_EQ(h.Job("a").step(), 0);
}

TEST_F(Forgery, OnlyTheNodeOfRankZeroCommits) {
  const v1::CommitAnswer answer = Commit("n1", 1, 50);
  EXPECT_FALSE(answer.accepted());
  EXPECT_THAT(answer.reason(), HasSubstr("only the node of rank 0 commits, and n1 has other"));
  EXPECT_FALSE(h.Job("a").has_checkpoint());
  EXPECT_TRUE(Commit("n0", 1, 50).accepted());
  EXPECT_EQ(h.Job("a").checkpoint().step(), 50);
}

TEST_F(Forgery, AnOutsidersStepsHangsAndEndsChangeNothing) {
  h.SayStep("n2", "a", 1, 99);
  h.SayBeat("n2", "a", 1, 0, "forward");
  h.SayHang("n2", "a", 1, 0);
  h.SayEnded("n2", "a", 1, v1::Finished::FAILED, "forged", 0);
  h.SayStopping("n2", "a", 1, 10);
  EXPECT_EQ(h.Job("a").step(), 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  EXPECT_TRUE(h.progress.empty());
}

TEST_F(Forgery, AMemberBlamesNoOtherNodesRankAsItsOwn) {
  h.SayHang("n1", "a", 1, 0);  // local, and rank 0 is on n0
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayHang("n1", "a", 1, 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(Forgery, OfARecoveringJobOnlyItsMembersSayWhoWasToBlame) {
  h.SayHang("n0", "a", 1, -1, {0, 1});  // one of both: nobody knows which
  ASSERT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  const std::string reason = h.Job("a").reason();
  h.SayHang("n2", "a", 1, 0);
  h.SayHang("n2", "a", 1, 0, {0});
  h.SayHang("n1", "a", 1, 0);
  h.SayEnded("n2", "a", 1, v1::Finished::FAILED, "forged", 0);
  h.SayEnded("n1", "a", 1, v1::Finished::FAILED, "forged", 0);
  EXPECT_EQ(h.Job("a").reason(), reason);
  h.SayEnded("n1", "a", 1, v1::Finished::FAILED, "its own", 1);
  EXPECT_EQ(h.Job("a").reason(), "its own");
}

TEST_F(Forgery, NoAgentSaysWhatBecomesOfAJob) {
  v1::AgentMessage message;
  v1::JobEpoch& epoch = *message.mutable_progress()->mutable_epoch();
  epoch.set_job("jobs/a");
  epoch.set_epoch(1);
  message.mutable_progress()->mutable_progress()->mutable_job()->set_state(v1::Job::SUCCEEDED);
  h.Say("n0", std::move(message));
  EXPECT_TRUE(h.progress.empty());
}

TEST_F(Forgery, FragmentsOfOtherNodesRanksAreNotTaken) {
  h.SayWritten("n1", "a", 1, 20, {0, 1});  // rank 0 is on n0
  h.SayWritten("n2", "a", 1, 20, {0, 1});
  EXPECT_TRUE(h.Take("n0").empty());
  h.SayWritten("n0", "a", 1, 20, {0});
  const std::vector<v1::ControllerMessage> said = h.Take("n0");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].write_manifest().step(), 20);
}

TEST_F(Forgery, ANodeThatClaimsToHoldTheEpochIsNoMember) {
  h.Reconnect("n2", {testing::Held("a", 1, {0, 1}, /*running=*/true)});
  EXPECT_EQ(h.LastWelcome("n2").keep_size(), 0);
  EXPECT_FALSE(Commit("n2", 1, 50).accepted());
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
}

}  // namespace
}  // namespace strata::controller
