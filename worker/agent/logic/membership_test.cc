#include "worker/agent/logic/membership.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

v1::Welcome Of(const std::string& cluster, const std::string& store,
               const std::vector<std::string>& earlier = {}) {
  v1::Welcome welcome;
  welcome.set_cluster(cluster);
  welcome.set_store_incarnation(store);
  for (const std::string& each : earlier) welcome.add_earlier_incarnations(each);
  return welcome;
}

v1::AgentMembership Kept(const std::string& cluster, const std::string& store, int64_t term) {
  v1::AgentMembership kept;
  kept.set_cluster(cluster);
  kept.set_store_incarnation(store);
  kept.set_controller_term(term);
  return kept;
}

v1::ControllerMessage Stop(int64_t term) {
  v1::ControllerMessage message;
  message.set_controller_term(term);
  message.mutable_stop();
  return message;
}

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(MembershipTest, ANewAgentTakesTheFirstClusterThatItHears) {
  Membership membership({}, false);
  const auto verdict = membership.Judge(Of("c", "s"), 3, false);
  ASSERT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict->changed);
  EXPECT_FALSE(verdict->restored);
  membership.Take(verdict->membership);
  EXPECT_EQ(membership.kept().cluster(), "c");
  EXPECT_FALSE(membership.Judge(Of("c", "s"), 3, true)->changed);
}

TEST(MembershipTest, WithinOneLifeOfTheStoreTermsOnlyGrow) {
  const Membership membership(Kept("c", "s", 5), false);
  EXPECT_FALSE(membership.Judge(Of("c", "s"), 4, false).ok());
  EXPECT_TRUE(membership.Judge(Of("c", "s"), 5, true).ok());
  EXPECT_TRUE(membership.Judge(Of("c", "s"), 6, true).ok());
}

TEST(MembershipTest, ARestoredStoreIsHeardWithItsLowerTerm) {
  Membership membership(Kept("c", "s", 50), false);
  const auto verdict = membership.Judge(Of("c", "s2", {"s0", "s"}), 2, true);
  ASSERT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict->restored);
  membership.Take(verdict->membership);
  EXPECT_EQ(membership.kept().controller_term(), 2);
  // The one that it replaced is not heard any more, whatever its term.
  EXPECT_FALSE(membership.Judge(Of("c", "s"), 51, false).ok());
  EXPECT_FALSE(membership.Judge(Of("c", "s", {"s0"}), kHuge, false).ok());
}

TEST(MembershipTest, AnotherClusterIsRefusedUnlessToldToRejoinWithNothingHeld) {
  EXPECT_FALSE(Membership(Kept("c", "s", 1), false).Judge(Of("d", "t"), kHuge, false).ok());
  EXPECT_FALSE(Membership(Kept("c", "s", 1), false).Judge(Of("", ""), kHuge, false).ok());
  EXPECT_FALSE(Membership(Kept("c", "s", 1), true).Judge(Of("d", "t"), 9, true).ok());
  EXPECT_TRUE(Membership(Kept("c", "s", 9), true).Judge(Of("d", "t"), 1, false).ok());
}

TEST(MembershipTest, AnAgentOfBeforeClustersKeepsItsTerm) {
  const Membership membership(Kept("", "", 7), false);
  EXPECT_FALSE(membership.Judge(Of("c", "s"), 6, false).ok());
  EXPECT_TRUE(membership.Judge(Of("c", "s"), 7, true).ok());
}

TEST(MembershipTest, NoWordButAWelcomeChangesTheTerm) {
  Membership membership(Kept("c", "s", 5), false);
  membership.BeginSession();
  EXPECT_FALSE(membership.CheckWord(Stop(kHuge)).ok());
  EXPECT_EQ(membership.kept().controller_term(), 5);
  membership.Take(membership.Judge(Of("c", "s"), 6, false)->membership);
  EXPECT_TRUE(membership.CheckWord(Stop(6)).ok());
  EXPECT_FALSE(membership.CheckWord(Stop(5)).ok());
  EXPECT_FALSE(membership.CheckWord(Stop(7)).ok());
  membership.BeginSession();
  EXPECT_FALSE(membership.CheckWord(Stop(6)).ok());
}

TEST(MembershipTest, WhoSendsUsAwayMustNotBeOfAnEarlierTerm) {
  const Membership membership(Kept("c", "s", 5), false);
  v1::ControllerMessage message;
  message.mutable_dismiss();
  message.set_controller_term(4);
  EXPECT_FALSE(membership.CheckWord(message).ok());
  message.set_controller_term(5);
  EXPECT_TRUE(membership.CheckWord(message).ok());
}

}  // namespace
}  // namespace strata::worker
