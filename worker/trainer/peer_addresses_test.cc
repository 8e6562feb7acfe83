#include "worker/trainer/peer_addresses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;

v1::StartRanks Start(const std::vector<int>& ranks, const std::vector<std::string>& addresses) {
  v1::StartRanks start;
  start.mutable_ranks()->Add(ranks.begin(), ranks.end());
  start.mutable_addresses()->Add(addresses.begin(), addresses.end());
  return start;
}

TEST(PeerAddressesTest, OfMoreThanItsPeers_ARankUsesTheirs) {
  const auto some = PeerAddresses(Start({0, 2, 3}, {"a", "c", "d"}), 5, 2, {3});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT(*some, ElementsAre("", "", "c", "d", ""));
  const auto all = PeerAddresses(Start({}, {"a", "b", "c"}), 3, 0, {1});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ElementsAre("a", "b", ""));
}

TEST(PeerAddressesTest, AMissingAddressNamesBothRanks) {
  const auto missing = PeerAddresses(Start({0, 1}, {"a", "b"}), 4, 1, {0, 3});
  EXPECT_EQ(missing.status(),
            absl::FailedPreconditionError("rank 1 was not given the address of rank 3, with which "
                                          "it is to exchange data"));
  EXPECT_TRUE(absl::IsFailedPrecondition(PeerAddresses(Start({0}, {"a"}), 2, 1, {0}).status()));
}

TEST(PeerAddressesTest, AStartThatCannotBeIsRefused) {
  for (const v1::StartRanks& start : {Start({}, {"a"}), Start({0, 1}, {"a"}),
                                      Start({0, 2}, {"a", "c"}), Start({-1, 0}, {"x", "a"})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PeerAddresses(start, 2, 0, {1}).status()));
  }
}

}  // namespace
}  // namespace strata::worker
