#include <gtest/gtest.h>

#include "controller/logic/agreement.h"
#include "controller/logic/core.h"
#include "controller/logic/names.h"
#include "controller/logic/restart_policy.h"

namespace strata::controller {
namespace {

v1::Prepared InGroup(const std::vector<int>& members, const std::string& digest) {
  v1::Prepared prepared;
  prepared.set_plan_digest("plan");
  v1::GroupDigest& group = *prepared.add_groups();
  group.set_group("data");
  group.mutable_members()->Add(members.begin(), members.end());
  group.set_digest(digest);
  return prepared;
}

TEST(Agreement, EqualDigestsInEachGroupAgree) {
  EXPECT_TRUE(CheckAgreement({{0, InGroup({0, 1}, "x")},
                              {1, InGroup({0, 1}, "x")},
                              {2, InGroup({2, 3}, "y")},
                              {3, InGroup({2, 3}, "y")}})
                  .ok());
}

TEST(Agreement, DifferentCollectivesNameGroupAndRanks) {
  const absl::Status status =
      CheckAgreement({{0, InGroup({0, 1}, "x")}, {1, InGroup({0, 1}, "y")}});
  EXPECT_EQ(std::string(status.message()),
            "ranks 0 and 1 disagree about the collectives of group data (ranks 0, 1)");
}

TEST(Agreement, AMemberThatDoesNotKnowItsGroupDisagrees) {
  v1::Prepared lonely;
  lonely.set_plan_digest("plan");
  EXPECT_FALSE(CheckAgreement({{0, InGroup({0, 1}, "x")}, {1, lonely}}).ok());
}

TEST(Agreement, AGroupOfOthersIsRefused) {
  v1::Prepared other = InGroup({0, 1}, "x");
  EXPECT_FALSE(CheckAgreement({{0, InGroup({0, 1}, "x")}, {1, other}, {2, other}}).ok());
}

TEST(RestartPolicy, TheFirstRestartIsImmediateAndTheOthersBackOffToABound) {
  EXPECT_EQ(BackOff(0, 0.2), 0);
  EXPECT_EQ(BackOff(1, 0.2), 0);
  EXPECT_EQ(BackOff(2, 0.2), 0.2);
  EXPECT_EQ(BackOff(3, 0.2), 0.4);
  EXPECT_EQ(BackOff(100, 0.2), 8);
}

TEST(Names, NodesComeInTheOrderOfTheirNumbers) {
  EXPECT_TRUE(NaturalLess("n2", "n10"));
  EXPECT_FALSE(NaturalLess("n10", "n2"));
  EXPECT_TRUE(NaturalLess("n", "n0"));
  EXPECT_FALSE(NaturalLess("n1", "n1"));
  EXPECT_NE(NaturalLess("n01", "n1"), NaturalLess("n1", "n01"));
  EXPECT_TRUE(NaturalLess("a9b1", "a9b02"));
}

Placer::View::Node Free(const std::string& name, const std::string& kind, std::vector<int> free) {
  return {.name = name, .kind = kind, .devices = static_cast<int>(free.size()), .free = free};
}

v1::JobSpec Asks(const std::string& device, int ranks) {
  v1::JobSpec spec;
  spec.mutable_resources()->set_device(device);
  spec.mutable_resources()->set_ranks(ranks);
  return spec;
}

TEST(InOrderPlacer, TakesTheFirstFreeDevicesOfTheKind) {
  const Placer::View view = {.nodes = {Free("nodes/a", "cpu", {0}), Free("nodes/b", "h100", {1, 3}),
                                       Free("nodes/c", "h100", {0})}};
  const auto ranks = InOrderPlacer()->Place(Asks("h100", 3), view).ranks;
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].node, "nodes/b");
  EXPECT_EQ(ranks[1].device, 3);
  EXPECT_EQ(ranks[2].node, "nodes/c");
}

TEST(InOrderPlacer, GpuIsAnyOneKindForTheWholeJob) {
  const Placer::View view = {.nodes = {Free("nodes/a", "a100", {0}),
                                       Free("nodes/b", "h100", {0, 1}),
                                       Free("nodes/c", "cpu", {0, 1, 2})}};
  const auto ranks = InOrderPlacer()->Place(Asks("gpu", 2), view).ranks;
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].node, "nodes/b");
  EXPECT_TRUE(InOrderPlacer()->Place(Asks("gpu", 3), view).infeasible);
}

}  // namespace
}  // namespace strata::controller
