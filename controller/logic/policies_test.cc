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

v1::Prepared OnStage(int stage, const std::string& program) {
  v1::Prepared prepared;
  prepared.set_plan_digest("plan");
  prepared.set_stage(stage);
  prepared.set_program_digest(program);
  return prepared;
}

TEST(Agreement, ProgramsAreComparedOnEachStage) {
  EXPECT_TRUE(
      CheckAgreement({{0, OnStage(0, "x")}, {1, OnStage(1, "y")}, {2, OnStage(1, "y")}}).ok());
  const absl::Status status =
      CheckAgreement({{0, OnStage(0, "x")}, {1, OnStage(1, "y")}, {2, OnStage(1, "x")}});
  EXPECT_EQ(std::string(status.message()),
            "ranks 1 and 2 made different programs for stage 1 (y and x)");
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

}  // namespace
}  // namespace strata::controller
